//! The update that is recorded for a delivery, and the message that is published for it.

use super::attempt_job::{context, span};
use super::origin::Origin;
use crate::schedule::Wait;
use crate::store::{AttemptRow, DeliveryRow};
use bytes::Bytes;
use common::clock;
use common::message::DeliveryMeta;
use common::model::DeliveryState;
use std::time::Duration;
use tracing::Span;
use uuid::Uuid;

/// The update that is recorded for a delivery.
#[derive(Debug)]
pub(super) struct DeliveryUpdate {
    pub meta: DeliveryMeta,
    pub body: Bytes,
    /// The delivery's row, with its new state.
    pub delivery_row: DeliveryRow,
    /// The attempt, if one was made.
    pub attempt: Option<AttemptRow>,
    pub follow_up: FollowUp,
    /// Where it came from: settled once it is recorded.
    pub origin: Origin,
    /// Whether its attempt is open, so that duplicates of it wait for this record.
    pub opened: Opened,
}

/// The message that is published or dead-lettered with a recorded update.
#[derive(Clone, Copy, Debug)]
pub(super) enum FollowUp {
    None,
    /// A message for the next attempt, published before the record is committed.
    Retry(Wait),
    /// A message for the same attempt, published before the record is committed.
    Queue,
    /// Its message is dead-lettered.
    DeadLetter,
}

/// Whether an attempt was opened (see [`OpenAttempts`](super::open_attempts::OpenAttempts)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    Yes,
    No,
}

impl DeliveryUpdate {
    /// Parks the delivery for at least `wait`.
    pub(super) fn parked(
        meta: DeliveryMeta,
        body: Bytes,
        origin: Origin,
        wait: Duration,
        opened: Opened,
    ) -> Self {
        let mut update = Self::new(meta, body, origin, opened, FollowUp::None);
        update.park();
        update.delivery_row.parked_until = (!wait.is_zero()).then(|| clock::now() + wait);
        update
    }

    /// Publishes the delivery to the queue.
    pub(super) fn queued(meta: DeliveryMeta, body: Bytes, origin: Origin, opened: Opened) -> Self {
        let mut update = Self::new(meta, body, origin, opened, FollowUp::Queue);
        update.delivery_row.next_attempt_at = Some(clock::now());
        update
    }

    /// Drops the delivery, because its subscription was removed.
    pub(super) fn dropped(meta: DeliveryMeta, body: Bytes, origin: Origin) -> Self {
        let mut update = Self::new(meta, body, origin, Opened::No, FollowUp::None);
        update.delivery_row.state = DeliveryState::Dropped;
        update
    }

    fn new(meta: DeliveryMeta, body: Bytes, origin: Origin, opened: Opened, follow_up: FollowUp) -> Self {
        let delivery_row = DeliveryRow::unchanged(&meta);
        Self { meta, body, delivery_row, attempt: None, follow_up, origin, opened }
    }

    /// Parks the delivery until it is due, or makes it due now.
    pub(super) fn park(&mut self) {
        let now = clock::now();
        self.delivery_row.parked_at = Some(now);
        self.delivery_row.next_attempt_at.get_or_insert(now);
    }

    pub(super) fn span(&self) -> Span {
        span(&self.meta, context(&self.meta))
    }

    /// The lock order of deliveries, the same in all transactions, which prevents deadlocks. Of several updates of one delivery
    /// the decisive one comes last.
    pub(super) fn order(&self) -> (Uuid, Uuid, bool, i16, bool) {
        let DeliveryRow { tenant_id, delivery_id, state, attempts, .. } = self.delivery_row;
        (tenant_id, delivery_id, state == DeliveryState::Delivered, attempts, self.attempt.is_some())
    }
}
