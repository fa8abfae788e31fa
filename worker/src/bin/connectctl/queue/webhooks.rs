//! Dead letters of the webhooks. A message alone must not go back: the delivery's row says what is to be sent, and a
//! replay begins there (D26).

use super::Requeued;
use crate::context::Context;
use crate::delivery::{of_dead_letter, replay_dead_ones};
use common::broker::{DeadLetter, Fate, Queue, Visit};
use common::message::DeliveryMeta;
use common::model::TenantId;
use std::collections::{BTreeMap, HashSet};
use tokio_postgres::Row;
use uuid::Uuid;

const ENDED: &str = "-- deliveries.ended
SELECT delivery_id FROM deliveries
WHERE tenant_id = $1 AND delivery_id = ANY($2) AND state IN ('delivered', 'dropped')";

/// Replays the deliveries of at most `limit` dead letters, of all agencies. The dead letters of those are removed, and
/// of those that have ended otherwise since. What can't be read, is on its way or isn't known here stays.
pub(super) async fn replay(visit: &Visit, json: bool, limit: Option<u32>) -> anyhow::Result<Requeued> {
    let mut context = Context::open(json).await?;
    context.output.note("Dead letters of webhooks are replayed as deliveries, through the database.");
    let mut walk = visit.walk(Queue::Webhooks, limit).await?;
    let mut progress = context.output.progress("gone through", walk.left().into());
    // Several dead letters may be of one delivery.
    let (mut replayed, mut ended) = (HashSet::new(), HashSet::new());
    while let Some(window) = walk.next_window().await? {
        conclude(&mut context, window.letters(), &mut replayed, &mut ended).await?;
        let of_no_use = |id| replayed.contains(&id) || ended.contains(&id);
        let fate = |letter: &DeadLetter| match of_dead_letter(letter) {
            Some(meta) if of_no_use(meta.delivery_id) => Fate::Remove,
            Some(_) | None => Fate::Keep,
        };
        window.settle(fate).await?;
        progress.reached(walk.walked().seen().into());
    }
    let walked = walk.finish().await?;
    progress.end(walked.seen().into());
    let requeued = u32::try_from(replayed.len())?;
    Ok(Requeued { requeued, kept: walked.kept, removed: walked.removed.saturating_sub(requeued) })
}

/// Replays the deliveries that `letters` are of. Adds to `replayed` those that were, and to `ended` those that were
/// delivered or dropped before.
async fn conclude(
    context: &mut Context,
    letters: &[DeadLetter],
    replayed: &mut HashSet<Uuid>,
    ended: &mut HashSet<Uuid>,
) -> anyhow::Result<()> {
    let mut of_agencies: BTreeMap<TenantId, Vec<DeliveryMeta>> = BTreeMap::new();
    for meta in letters.iter().filter_map(of_dead_letter) {
        of_agencies.entry(meta.tenant_id).or_default().push(meta);
    }
    for (tenant, metas) in of_agencies {
        let ids: Vec<Uuid> = metas.iter().map(|meta| meta.delivery_id).collect();
        let rows = context.database.query(ENDED, &[&tenant.0, &ids]).await?;
        let before = rows.iter().map(|row: &Row| row.try_get::<_, Uuid>("delivery_id"));
        ended.extend(before.collect::<Result<Vec<_>, _>>()?);
        let addressed: Vec<_> = metas.iter().map(|meta| (meta.delivery_id, meta.subscription_id)).collect();
        replayed.extend(replay_dead_ones(context, tenant, &addressed).await?);
    }
    Ok(())
}
