//! Replays deliveries: they are sent again with the same ids and numbers (D26). Many are replayed by a job: the dispatcher replays
//! all that match a query, in batches and at a limited rate.
//!
//! A job is a row. It goes on when the program that created it ends, and replays no delivery twice. The count, the page of a
//! query and the job select by the id of the delivery, which has the time of its event.
//!
//! The notice of a dead-lettered delivery stays in the dead-letter queue until an operator requeues or drops it.

use super::{Delivery, DeliveryQuery, parse_id};
use crate::audit::{Actor, AuditAction, record};
use crate::store::replay_jobs::{self, Counted, NewReplayJob, before};
pub use crate::store::replay_jobs::{ReplayJob, ReplayJobState};
use crate::store::{deliveries, delivery_changes, subscriptions};
use crate::{AdminError, Newest, Observer, ProgressStep, Result, tenants, transact};
use common::event::OutboundType;
use common::model::{DeliveryState, TenantId};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

const REPLAYABLE: &[DeliveryState] = &[DeliveryState::DeadLettered, DeliveryState::Delivered];

/// Replays one delivery; the error says why it cannot be replayed.
pub async fn replay_one(client: &mut Client, actor: &Actor, id: &str) -> Result<()> {
    let parsed = parse_id(id)?;
    let not_found = || AdminError::DeliveryNotFound(id.to_owned());
    let tenant = deliveries::find(client, parsed).await?.ok_or_else(not_found)?.tenant;
    let run = async |tx: &Transaction<'_>| {
        let replayed = delivery_changes::replay(tx, tenant, &[parsed], REPLAYABLE).await?;
        if !replayed.is_empty() {
            record(tx, actor, AuditAction::ReplayDeliveries, &parsed.to_string(), Some(tenant)).await?;
        }
        Ok(!replayed.is_empty())
    };
    if transact(client, run).await? {
        return Ok(());
    }
    let state = delivery_changes::state(client, tenant, parsed).await?.ok_or_else(not_found)?;
    Err(if REPLAYABLE.contains(&state) {
        AdminError::DeliveryWithoutSubscription(parsed)
    } else {
        AdminError::DeliveryNotReplayable(parsed, state)
    })
}

/// Makes the next attempt of a pending delivery due now. Its schedule goes on after that attempt.
pub async fn send_now(client: &mut Client, actor: &Actor, delivery: &Delivery) -> Result<()> {
    let Delivery { id, tenant, subscription_id, .. } = *delivery;
    transact(client, async |tx| {
        let subscription = subscriptions::slug(tx, subscription_id).await?;
        if subscription.is_none_or(|(.., is_paused)| is_paused) {
            let waits = "the subscription is paused or was removed: nothing is sent to it";
            return Err(AdminError::InvalidInput(waits.to_owned()));
        }
        if !delivery_changes::send_now(tx, tenant, id).await? {
            let ended = "the delivery is not pending any more: open its page again";
            return Err(AdminError::InvalidInput(ended.to_owned()));
        }
        record(tx, actor, AuditAction::SendDelivery, &id.to_string(), Some(tenant)).await
    })
    .await
}

/// The rates that a job may have, in deliveries per second.
pub const REPLAY_RATES: std::ops::RangeInclusive<i32> = 1..=1_000;
/// The rate of a job for which none is given.
pub const REPLAY_RATE: i32 = 100;

/// Maximum number of jobs of a tenant that have not ended.
const JOBS_MAX: i64 = 5;
/// How often the progress of a job is read.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Time without progress after which nobody executes the job.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// How many deliveries a query selects for a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchingCount {
    /// At most as many as were to be counted.
    pub count: u64,
    /// Whether there are more.
    pub has_more: bool,
}

/// The states of the deliveries that a query selects for a replay. Refuses a state in which a delivery cannot be replayed.
fn replayable(query: &DeliveryQuery) -> Result<Vec<DeliveryState>> {
    match query.state {
        None => Ok(vec![DeliveryState::DeadLettered, DeliveryState::Delivered]),
        Some(state @ (DeliveryState::DeadLettered | DeliveryState::Delivered)) => Ok(vec![state]),
        Some(state @ (DeliveryState::Pending | DeliveryState::Dropped)) => Err(AdminError::InvalidInput(format!(
            "state must be dead or delivered: {state} deliveries cannot be replayed"
        ))),
    }
}

/// The subscriptions whose deliveries a query selects, without removed ones.
async fn selected_subscriptions(client: &Client, tenant: TenantId, query: &DeliveryQuery) -> Result<Vec<Uuid>> {
    let existing = subscriptions::list(client, tenant, None, u32::MAX).await?.items.into_iter().map(|one| one.id);
    let selected: Vec<Uuid> = existing.filter(|id| query.subscription.is_none_or(|only| only == *id)).collect();
    match query.subscription {
        Some(missing) if selected.is_empty() => Err(AdminError::SubscriptionNotInTenant(missing.to_string())),
        Some(_) | None => Ok(selected),
    }
}

/// Counts what a replay of a query would replay now, up to `most`.
pub async fn count_replay(
    client: &Client, tenant: TenantId, query: &DeliveryQuery, most: u64,
) -> Result<MatchingCount> {
    let (states, ids) = (replayable(query)?, query.ids());
    let event_type = query.event_type.map(OutboundType::as_str);
    let subscriptions = selected_subscriptions(client, tenant, query).await?;
    let counted = Counted { tenant, subscriptions: &subscriptions, states: &states, event_type };
    let (mut count, mut left) = (0, before(ids.start)..ids.end);
    loop {
        let page = replay_jobs::count_page(client, counted, &left).await?;
        count += page.matched;
        if count > most {
            return Ok(MatchingCount { count: most, has_more: true });
        }
        let Some(next) = page.next else { return Ok(MatchingCount { count, has_more: false }) };
        left.start = next;
    }
}

/// Creates a job with the new id `id` that replays what the query selects, at most `per_second` deliveries in a second. `counted` is the result of
/// [`count_replay`]. Deliveries of events after the creation of the job are not part of it.
pub async fn create_replay(
    client: &mut Client, actor: &Actor, (tenant, id): (TenantId, Uuid), query: &DeliveryQuery,
    (counted, per_second): (MatchingCount, i32),
) -> Result<ReplayJob> {
    let states = replayable(query)?;
    if !REPLAY_RATES.contains(&per_second) {
        let (least, most) = (REPLAY_RATES.start(), REPLAY_RATES.end());
        let expected = format!("the rate must be from {least} to {most} deliveries per second");
        return Err(AdminError::InvalidInput(expected));
    }
    // Refuses a subscription that the tenant does not have.
    selected_subscriptions(client, tenant, query).await?;
    let mut ids = query.ids();
    ids.end = ids.end.min(id);
    let matched = i64::try_from(counted.count).ok().filter(|_| !counted.has_more);
    let event_type = query.event_type.map(OutboundType::as_str);
    let (states, subscription) = (states.as_slice(), query.subscription);
    let new = NewReplayJob { id, tenant, states, event_type, subscription, ids, per_second, matched };
    let create = async |tx: &Transaction<'_>| {
        let created = replay_jobs::create(tx, &new, JOBS_MAX).await?;
        let job = created.ok_or(AdminError::TooManyReplayJobs(JOBS_MAX))?;
        let target = format!("{query} job={id}");
        record(tx, actor, AuditAction::ReplayDeliveries, &target, Some(tenant)).await?;
        Ok(job)
    };
    transact(client, create).await
}

/// The newest jobs of a tenant, newest last.
pub async fn list_replays(client: &Client, tenant: &str, limit: u32) -> Result<Newest<ReplayJob>> {
    let tenant = tenants::find(client, tenant).await?;
    replay_jobs::of_tenant(client, tenant, limit).await
}

/// The job with the id `id`.
pub async fn find_replay(client: &Client, id: &str) -> Result<ReplayJob> {
    let not_found = || AdminError::ReplayJobNotFound(id.to_owned());
    let parsed = Uuid::try_parse(id).map_err(|_| not_found())?;
    replay_jobs::find(client, parsed).await?.ok_or_else(not_found)
}

/// Stops a job: no delivery is replayed any more once this has returned. What was replayed is sent.
pub async fn stop_replay(client: &mut Client, actor: &Actor, id: &str) -> Result<ReplayJob> {
    let job = find_replay(client, id).await?;
    let stop = async |tx: &Transaction<'_>| {
        if !replay_jobs::stop(tx, job.tenant, job.id).await? {
            return Err(AdminError::ReplayJobNotRunning(job.id));
        }
        record(tx, actor, AuditAction::StopReplay, &job.id.to_string(), Some(job.tenant)).await
    };
    transact(client, stop).await?;
    find_replay(client, id).await
}

/// Waits until a job has ended. Fails if it makes no progress, because no dispatcher executes it; the job stays.
pub async fn wait_for_replay(client: &Client, job: &ReplayJob, observer: &mut impl Observer) -> Result<ReplayJob> {
    let id = job.id.to_string();
    let total = job.matched.and_then(|matched| u64::try_from(matched).ok()).unwrap_or_default();
    observer.begin(ProgressStep::ReplayDeliveries, total);
    let (mut seen, mut since) = (None, Instant::now());
    loop {
        let now = find_replay(client, &id).await?;
        let replayed = u64::try_from(now.replayed).unwrap_or_default();
        if now.state.has_ended() {
            observer.end(replayed);
            return Ok(now);
        }
        observer.reached(replayed);
        let progress = Some((now.state, now.last_id));
        if progress != seen {
            (seen, since) = (progress, Instant::now());
        } else if since.elapsed() >= STALLED_AFTER {
            return Err(AdminError::ReplayStalled(now.id, STALLED_AFTER));
        }
        sleep(POLL_INTERVAL).await;
    }
}
