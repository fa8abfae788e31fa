//! Where a delivery came from, which decides what follows once it is recorded.

use super::in_flight::EventInFlight;
use common::broker::{AckHandle, Queue, UnacknowledgedGuard};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Where a delivery came from.
#[derive(Debug)]
pub(super) enum DeliverySource {
    /// A message of the webhooks queue, to be acknowledged.
    Queue(AckHandle),
    /// Directly from the outbox: its event is marked as relayed when its last delivery is recorded.
    Outbox(OutboxDelivery),
}

/// One delivery of an event in flight.
#[derive(Debug)]
pub(super) struct OutboxDelivery {
    pub(super) event: Arc<EventInFlight>,
    /// Its slot among the direct deliveries, released when it is dropped. `None` for a delivery that is only recorded.
    _slot: Option<Slot>,
}

/// A slot of a direct delivery.
#[derive(Debug)]
pub(super) struct Slot {
    /// A permit of all direct deliveries, and one of those to slow and new receivers.
    _permits: [Option<OwnedSemaphorePermit>; 2],
    /// Counts the delivery as unacknowledged meanwhile.
    _held: UnacknowledgedGuard,
}

impl OutboxDelivery {
    pub(super) const fn new(event: Arc<EventInFlight>) -> Self {
        Self { event, _slot: None }
    }

    pub(super) fn with_slot(event: Arc<EventInFlight>, slot: Slot) -> Self {
        Self { event, _slot: Some(slot) }
    }
}

impl Slot {
    pub(super) fn new(of_all: OwnedSemaphorePermit, of_slow_or_new: Option<OwnedSemaphorePermit>) -> Self {
        Self { _permits: [Some(of_all), of_slow_or_new], _held: UnacknowledgedGuard::new(Queue::Webhooks) }
    }
}
