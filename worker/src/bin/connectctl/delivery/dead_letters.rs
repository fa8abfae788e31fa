//! The dead letters of deliveries, in the broker.

use crate::output::Output;
use common::broker::{DeadLetter, Fate, Queue, Visit};
use common::message::DeliveryMeta;
use std::collections::HashSet;
use uuid::Uuid;

/// The delivery that a dead letter of the webhooks stands for; `None` when its metadata can't be read.
pub(crate) fn delivery(letter: &DeadLetter) -> Option<DeliveryMeta> {
    serde_json::from_str(letter.meta.as_deref()?).ok()
}

/// Takes the dead letters of `replayed` deliveries out of the broker.
pub(super) async fn remove(visit: &Visit, replayed: &HashSet<Uuid>, output: Output) -> anyhow::Result<()> {
    let dead = visit.dead_queue_name(Queue::Webhooks);
    if replayed.is_empty() || visit.depth(&dead).await?.is_none_or(|depth| depth.ready == 0) {
        return Ok(());
    }
    let mut walk = visit.walk(Queue::Webhooks, None).await?;
    let mut progress = output.progress("dead letters gone through:", walk.left().into());
    let is_replayed =
        |letter: &DeadLetter| delivery(letter).is_some_and(|meta| replayed.contains(&meta.delivery_id));
    while let Some(window) = walk.next_window().await? {
        window.settle(|letter| if is_replayed(letter) { Fate::Remove } else { Fate::Keep }).await?;
        progress.reached(walk.walked().seen().into());
    }
    progress.end(walk.walked().seen().into());
    walk.finish().await?;
    Ok(())
}
