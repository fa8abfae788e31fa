//! Where a delivery came from: the queue, or straight from the outbox. That decides who is told once it is on record.

use super::in_flight::EventInFlight;
use common::broker::{Held, Queue, Receipt};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Where a delivery came from.
#[derive(Debug)]
pub(super) enum Origin {
    /// A message of the queue, to be acknowledged.
    Queue(Receipt),
    /// The outbox, directly: its event is marked as relayed when its last delivery goes on record.
    Outbox(OutboxPart),
}

/// A delivery's part in its event.
#[derive(Debug)]
pub(super) struct OutboxPart {
    pub(super) event: Arc<EventInFlight>,
    /// Its place among the direct deliveries, free again when this is dropped. None for what is only put on record.
    _slot: Option<Slot>,
}

/// A direct delivery's place.
#[derive(Debug)]
pub(super) struct Slot {
    /// Of all direct deliveries, and of those to receivers that have not proved to respond soon.
    _permits: [Option<OwnedSemaphorePermit>; 2],
    /// It counts as unacknowledged for as long.
    _held: Held,
}

impl OutboxPart {
    pub(super) const fn new(event: Arc<EventInFlight>) -> Self {
        Self { event, _slot: None }
    }

    pub(super) fn with_slot(event: Arc<EventInFlight>, slot: Slot) -> Self {
        Self { event, _slot: Some(slot) }
    }
}

impl Slot {
    pub(super) fn new(of_all: OwnedSemaphorePermit, of_unproven: Option<OwnedSemaphorePermit>) -> Self {
        Self { _permits: [Some(of_all), of_unproven], _held: Held::new(Queue::Webhooks) }
    }
}
