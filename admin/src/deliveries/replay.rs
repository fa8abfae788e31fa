//! Replays deliveries: they are sent again with the same ids (D26).
//!
//! The row in the database is authoritative: a replay parks the delivery there, and the dispatcher picks it up. The dead
//! letter in the broker is removed after the commit; a crash in between leaves one that is no longer needed.
//!
//! Replays take a connection to the broker: without a broker nothing is replayed, as the dispatcher could not deliver it.

use super::{dead_letters, parse_id};
use crate::audit::{Actor, AuditAction, record, record_before};
use crate::store::replayable_deliveries::{self, ReplayTarget};
use crate::transaction::transact;
use crate::{AdminError, Notice, Observer, ProgressStep, store};
use chrono::{DateTime, Utc};
use common::broker::OperatorConnection;
use common::clock;
use common::model::{DeliveryState, TenantId};
use serde::Serialize;
use std::collections::HashSet;
use std::fmt;
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

const DEAD_LETTERED: &[DeliveryState] = &[DeliveryState::DeadLettered];
const REPLAYABLE: &[DeliveryState] = &[DeliveryState::DeadLettered, DeliveryState::Delivered];

/// The deliveries to replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplaySelection {
    /// Deliveries of this tenant.
    pub tenant: TenantId,
    /// Only dead-lettered deliveries; otherwise also delivered ones.
    pub dead: bool,
    /// Created at or after this time.
    pub from: Option<DateTime<Utc>>,
    /// Created before this time.
    pub to: Option<DateTime<Utc>>,
}

impl ReplaySelection {
    /// The states of the selected deliveries.
    pub(crate) const fn states(&self) -> &'static [DeliveryState] {
        if self.dead { DEAD_LETTERED } else { REPLAYABLE }
    }
}

/// As in an audit record: `dead deliveries`, `dead and delivered deliveries from 2026-05-01T10:00:00.000Z`.
impl fmt::Display for ReplaySelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.dead { "dead deliveries" } else { "dead and delivered deliveries" })?;
        for (word, at) in [("from", self.from), ("to", self.to)] {
            if let Some(at) = at {
                write!(f, " {word} {}", clock::to_text(at))?;
            }
        }
        Ok(())
    }
}

/// The result of a replay.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReplayReport {
    /// Number of deliveries that were selected.
    pub matched: u64,
    /// Number of replayed deliveries.
    pub replayed: u64,
}

/// Replays one delivery; the error says why it cannot be replayed.
pub async fn replay_one(
    client: &mut Client,
    actor: &Actor,
    broker: &OperatorConnection,
    id: &str,
    observer: &mut impl Observer,
) -> Result<(), AdminError> {
    let parsed = parse_id(id)?;
    let not_found = || AdminError::DeliveryNotFound(id.to_owned());
    let found = replayable_deliveries::find(client, parsed).await?.ok_or_else(not_found)?;
    let targets = [ReplayTarget { id: parsed, subscription: found.subscription }];
    let run = async |tx: &Transaction<'_>| {
        let replayed = replay_in(tx, found.tenant, &targets, REPLAYABLE).await?;
        if !replayed.is_empty() {
            let target = parsed.to_string();
            record(tx, actor, AuditAction::ReplayDeliveries, &target, Some(found.tenant)).await?;
        }
        Ok(replayed)
    };
    let replayed = transact(client, run).await?;
    let Some((_, was_dead_lettered)) = replayed.first() else {
        let state = replayable_deliveries::find(client, parsed).await?.ok_or_else(not_found)?.state;
        return Err(if REPLAYABLE.contains(&state) {
            AdminError::DeliveryWithoutSubscription(parsed)
        } else {
            AdminError::DeliveryNotReplayable { id: parsed, state }
        });
    };
    if *was_dead_lettered {
        remove_dead_letters(broker, &HashSet::from([parsed]), observer).await?;
    }
    Ok(())
}

/// Replays the selected deliveries in batches.
pub async fn replay_many(
    client: &mut Client,
    actor: &Actor,
    broker: &OperatorConnection,
    selection: &ReplaySelection,
    observer: &mut impl Observer,
) -> Result<ReplayReport, AdminError> {
    let subscriptions = store::subscriptions::all_ids(client, selection.tenant).await?;
    let total = replayable_deliveries::count(client, selection, &subscriptions).await?;
    let target = selection.to_string();
    record_before(client, actor, AuditAction::ReplayDeliveries, &target, Some(selection.tenant)).await?;
    observer.begin(ProgressStep::ReplayDeliveries, total);
    let (mut replayed, mut seen, mut were_dead_lettered, mut after) = (0, 0, HashSet::new(), Uuid::nil());
    loop {
        let page = replayable_deliveries::next(client, selection, &subscriptions, after).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        seen += page.len() as u64;
        let run =
            async |tx: &Transaction<'_>| replay_in(tx, selection.tenant, &page, selection.states()).await;
        let done = transact(client, run).await?;
        replayed += done.len() as u64;
        were_dead_lettered
            .extend(done.into_iter().filter_map(|(id, was_dead_lettered)| was_dead_lettered.then_some(id)));
        observer.reached(replayed);
    }
    observer.end(replayed);
    if seen > replayed {
        observer.notice(Notice::NotReplayed(seen - replayed));
    }
    remove_dead_letters(broker, &were_dead_lettered, observer).await?;
    Ok(ReplayReport { matched: seen, replayed })
}

async fn remove_dead_letters(
    broker: &OperatorConnection,
    replayed: &HashSet<Uuid>,
    observer: &mut impl Observer,
) -> Result<(), AdminError> {
    let removed = dead_letters::remove(broker, replayed, observer).await;
    removed.map_err(|source| AdminError::DeadLettersRemain { replayed: replayed.len(), source })
}

/// Replays those of a tenant's deliveries that are dead-lettered and whose subscription exists; returns the ids of these.
pub(crate) async fn replay_dead_lettered(
    client: &mut Client,
    tenant: TenantId,
    targets: &[ReplayTarget],
) -> Result<Vec<Uuid>, AdminError> {
    let run = async |tx: &Transaction<'_>| replay_in(tx, tenant, targets, DEAD_LETTERED).await;
    let replayed = transact(client, run).await?;
    Ok(replayed.into_iter().map(|(id, _)| id).collect())
}

/// Replays the deliveries that are in one of `states` and whose subscription exists; returns their ids, each with whether
/// it was dead-lettered.
async fn replay_in(
    tx: &Transaction<'_>,
    tenant: TenantId,
    targets: &[ReplayTarget],
    states: &[DeliveryState],
) -> Result<Vec<(Uuid, bool)>, AdminError> {
    let mut subscriptions: Vec<Uuid> = targets.iter().map(|target| target.subscription).collect();
    subscriptions.sort_unstable();
    subscriptions.dedup();
    let held = store::subscriptions::hold(tx, tenant, &subscriptions).await?;
    let locked = replayable_deliveries::lock(tx, tenant, targets, &held, states).await?;
    if !locked.is_empty() {
        let ids: Vec<Uuid> = locked.iter().map(|(id, _)| *id).collect();
        replayable_deliveries::replay(tx, tenant, &ids, clock::now()).await?;
        store::pending_deliveries::wake_dispatcher(tx).await?;
    }
    Ok(locked)
}
