//! Dead letters of webhook deliveries in the broker.

use crate::{Observer, ProgressStep};
use common::broker::{DeadLetter, DeadLetterAction, OperatorConnection, OperatorConnectionError, Queue};
use common::message::DeliveryMeta;
use std::collections::HashSet;
use uuid::Uuid;

/// The delivery of a dead letter of the webhooks queue; `None` if its metadata cannot be parsed.
pub(crate) fn delivery_of(letter: &DeadLetter) -> Option<DeliveryMeta> {
    serde_json::from_str(letter.meta.as_deref()?).ok()
}

/// Removes the dead letters of `replayed` deliveries from the broker.
pub(super) async fn remove(
    broker: &OperatorConnection,
    replayed: &HashSet<Uuid>,
    observer: &mut impl Observer,
) -> Result<(), OperatorConnectionError> {
    let dead = broker.dead_queue_name(Queue::Webhooks);
    if replayed.is_empty() || broker.depth(&dead).await?.is_none_or(|depth| depth.ready == 0) {
        return Ok(());
    }
    let mut scan = broker.scan_dead_letters(Queue::Webhooks, None).await?;
    observer.begin(ProgressStep::CheckDeadLetters, scan.remaining().into());
    let is_replayed =
        |letter: &DeadLetter| delivery_of(letter).is_some_and(|meta| replayed.contains(&meta.delivery_id));
    while let Some(window) = scan.next_window().await? {
        window
            .settle(
                |letter| if is_replayed(letter) { DeadLetterAction::Remove } else { DeadLetterAction::Keep },
            )
            .await?;
        observer.reached(scan.counts().total().into());
    }
    observer.end(scan.counts().total().into());
    scan.finish().await?;
    Ok(())
}
