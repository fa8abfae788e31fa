//! Replaying deliveries: they go out once more, with the same ids (D26).
//!
//! The row in the database is the truth; the dispatcher picks up what is parked there by itself. That the dead letter in
//! the broker goes away follows after the commit: a crash in between leaves one that nobody needs.

use super::{dead_letters, id, unknown};
use crate::context::Context;
use crate::output::Show;
use anyhow::{Context as _, anyhow};
use chrono::{DateTime, Utc};
use common::broker::Visit;
use common::clock;
use common::model::TenantId;
use common::settings::BrokerSettings;
use serde::Serialize;
use std::collections::HashSet;
use tokio_postgres::{Row, Transaction};
use uuid::Uuid;

const FIND: &str = "-- deliveries.find_to_replay
SELECT d.tenant_id, d.subscription_id, d.state
FROM tenants t JOIN deliveries d ON d.tenant_id = t.tenant_id AND d.delivery_id = $1";

const COUNT_DEAD: &str = "-- deliveries.count_dead
SELECT count(*) FROM deliveries
WHERE tenant_id = $1 AND state = 'dead'
    AND ($2::timestamptz IS NULL OR created_at >= $2) AND ($3::timestamptz IS NULL OR created_at < $3)";

const COUNT_FINISHED: &str = "-- deliveries.count_finished
SELECT count(*) FROM deliveries
WHERE tenant_id = $1 AND state IN ('dead', 'delivered')
    AND ($2::timestamptz IS NULL OR created_at >= $2) AND ($3::timestamptz IS NULL OR created_at < $3)";

const NEXT_DEAD: &str = "-- deliveries.next_dead
SELECT delivery_id, subscription_id FROM deliveries
WHERE tenant_id = $1 AND state = 'dead'
    AND ($2::timestamptz IS NULL OR created_at >= $2) AND ($3::timestamptz IS NULL OR created_at < $3)
    AND delivery_id > $4
ORDER BY delivery_id LIMIT $5";

const NEXT_FINISHED: &str = "-- deliveries.next_finished
SELECT delivery_id, subscription_id FROM deliveries
WHERE tenant_id = $1 AND state IN ('dead', 'delivered')
    AND ($2::timestamptz IS NULL OR created_at >= $2) AND ($3::timestamptz IS NULL OR created_at < $3)
    AND delivery_id > $4
ORDER BY delivery_id LIMIT $5";

/// Held until the commit: a subscription that is removed meanwhile finds what was replayed, and drops it.
const HOLD_SUBSCRIPTIONS: &str = "-- subscriptions.hold
SELECT subscription_id FROM subscriptions
WHERE tenant_id = $1 AND subscription_id = ANY($2) AND removed_at IS NULL
ORDER BY subscription_id FOR SHARE";

/// Guarded by the state, so that what was replayed meanwhile, or is on its way, isn't replayed again. Locked in the order
/// of the keys.
const REPLAY: &str = "-- deliveries.replay
WITH finished AS (
    SELECT delivery_id, state FROM deliveries
    WHERE tenant_id = $1 AND delivery_id = ANY($2) AND subscription_id = ANY($3) AND state = ANY($4)
    ORDER BY delivery_id FOR UPDATE
)
UPDATE deliveries SET state = 'pending', attempts_before = attempts, parked_at = $5, next_attempt_at = $5
FROM finished WHERE deliveries.tenant_id = $1 AND deliveries.delivery_id = finished.delivery_id
RETURNING deliveries.delivery_id, finished.state = 'dead' AS was_dead";

const WAKE: &str = "-- dispatcher.wake
SELECT pg_notify('connect_parked', '')";

/// Deliveries of a transaction.
const BATCH: i64 = 500;
const DEAD: &[&str] = &["dead"];
const FINISHED: &[&str] = &["dead", "delivered"];

/// Which deliveries.
pub(super) struct Wanted {
    pub(super) tenant: TenantId,
    /// Dead ones only; else all that are finished.
    pub(super) dead: bool,
    /// Made at or after this time.
    pub(super) from: Option<DateTime<Utc>>,
    /// Made before this time.
    pub(super) to: Option<DateTime<Utc>>,
}

/// How many were replayed.
#[derive(Serialize)]
pub(crate) struct Replayed {
    replayed: u64,
}

impl Show for Replayed {
    const COLUMNS: &'static [&'static str] = &["Replayed"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.replayed.to_string())]
    }
}

/// A delivery and where it goes.
struct Addressed {
    id: Uuid,
    subscription: Uuid,
}

/// Has the dispatcher look at the database when `tx` commits, instead of by and by.
pub(crate) async fn wake_dispatcher(tx: &Transaction<'_>) -> anyhow::Result<()> {
    tx.execute(WAKE, &[]).await?;
    Ok(())
}

/// Replays one delivery.
pub(super) async fn one(context: &mut Context, named: &str) -> anyhow::Result<()> {
    let id = id(named)?;
    let visit = visit(context).await?;
    let row = context.database.query_opt(FIND, &[&id]).await?.ok_or_else(|| unknown(named))?;
    let tenant = TenantId(row.try_get("tenant_id")?);
    let wanted = [Addressed { id, subscription: row.try_get("subscription_id")? }];
    let replayed = context.transact(async |tx| replay(tx, tenant, &wanted, FINISHED).await).await?;
    let Some((_, was_dead)) = replayed.first() else { return Err(refusal(context, named, id).await?) };
    if *was_dead {
        remove_dead_letters(&visit, &HashSet::from([id]), context).await?;
    }
    Ok(visit.close().await?)
}

/// Why a delivery is not replayed.
async fn refusal(context: &Context, named: &str, id: Uuid) -> anyhow::Result<anyhow::Error> {
    let row = context.database.query_opt(FIND, &[&id]).await?.ok_or_else(|| unknown(named))?;
    let state: String = row.try_get("state")?;
    Ok(if FINISHED.contains(&state.as_str()) {
        anyhow!("delivery {id} can't be replayed: its subscription was removed")
    } else {
        anyhow!("delivery {id} is {state}")
    })
}

/// Replays all that are wanted, in batches.
pub(super) async fn many(context: &mut Context, wanted: &Wanted) -> anyhow::Result<Replayed> {
    let visit = visit(context).await?;
    let (count, next, states) =
        if wanted.dead { (COUNT_DEAD, NEXT_DEAD, DEAD) } else { (COUNT_FINISHED, NEXT_FINISHED, FINISHED) };
    let Wanted { tenant, from, to, .. } = wanted;
    let total: i64 = context.database.query_one(count, &[&tenant.0, from, to]).await?.try_get(0)?;
    let mut progress = context.output.progress("replayed", u64::try_from(total)?);
    let (mut replayed, mut seen, mut died, mut after) = (0, 0, HashSet::new(), Uuid::nil());
    loop {
        let page = context.database.query(next, &[&tenant.0, from, to, &after, &BATCH]).await?;
        let page: Vec<Addressed> = page.iter().map(addressed).collect::<anyhow::Result<_>>()?;
        let Some(last) = page.last() else { break };
        after = last.id;
        seen += page.len();
        let done = context.transact(async |tx| replay(tx, *tenant, &page, states).await).await?;
        replayed += u64::try_from(done.len())?;
        died.extend(done.into_iter().filter_map(|(id, was_dead)| was_dead.then_some(id)));
        progress.reached(replayed);
    }
    progress.end(replayed);
    let left = u64::try_from(seen)? - replayed;
    if left > 0 {
        context
            .output
            .warn(&format!("{left} not replayed: their subscription was removed, or they are on their way"));
    }
    remove_dead_letters(&visit, &died, context).await?;
    visit.close().await?;
    Ok(Replayed { replayed })
}

async fn remove_dead_letters(
    visit: &Visit,
    replayed: &HashSet<Uuid>,
    context: &Context,
) -> anyhow::Result<()> {
    let removed = dead_letters::remove(visit, replayed, context.output).await;
    removed.with_context(|| {
        format!("{} replayed, but their dead letters are still in the queue", replayed.len())
    })
}

/// Replays those of `ids`, an agency's, that are dead and wanted by their subscription; the ids of those that were.
pub(crate) async fn replay_dead_ones(
    context: &mut Context,
    tenant: TenantId,
    ids: &[(Uuid, Uuid)],
) -> anyhow::Result<Vec<Uuid>> {
    let wanted: Vec<Addressed> =
        ids.iter().map(|&(id, subscription)| Addressed { id, subscription }).collect();
    let replayed = context.transact(async |tx| replay(tx, tenant, &wanted, DEAD).await).await?;
    Ok(replayed.into_iter().map(|(id, _)| id).collect())
}

/// The broker, asked first: without it nothing is begun, as the dispatcher couldn't go on with it anyway.
async fn visit(context: &Context) -> anyhow::Result<Visit> {
    Ok(Visit::open(&context.settings::<BrokerSettings>()?, "connectctl").await?)
}

fn addressed(row: &Row) -> anyhow::Result<Addressed> {
    Ok(Addressed { id: row.try_get("delivery_id")?, subscription: row.try_get("subscription_id")? })
}

/// Replays those that are in one of `states` and whose subscription is there; gives each one's id, and whether it was
/// dead.
async fn replay(
    tx: &Transaction<'_>,
    tenant: TenantId,
    wanted: &[Addressed],
    states: &[&str],
) -> anyhow::Result<Vec<(Uuid, bool)>> {
    let mut subscriptions: Vec<Uuid> = wanted.iter().map(|delivery| delivery.subscription).collect();
    subscriptions.sort_unstable();
    subscriptions.dedup();
    let held = tx.query(HOLD_SUBSCRIPTIONS, &[&tenant.0, &subscriptions]).await?;
    let held: Vec<Uuid> = held.iter().map(|row| row.try_get("subscription_id")).collect::<Result<_, _>>()?;
    let ids: Vec<Uuid> = wanted.iter().map(|delivery| delivery.id).collect();
    let rows = tx.query(REPLAY, &[&tenant.0, &ids, &held, &states, &clock::now()]).await?;
    if !rows.is_empty() {
        wake_dispatcher(tx).await?;
    }
    let replayed = |row: &Row| Ok((row.try_get("delivery_id")?, row.try_get("was_dead")?));
    rows.iter().map(replayed).collect()
}
