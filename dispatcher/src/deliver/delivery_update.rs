//! The update that is recorded for a delivery, and the message that is published for it.

use super::attempt_job::{context, span};
use super::source::DeliverySource;
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
    /// Where it came from.
    pub source: DeliverySource,
    /// Whether its attempt is tracked, so that duplicates of it wait for this record.
    pub tracked: Tracked,
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

/// Whether an attempt is tracked by [`UnrecordedAttempts`](super::unrecorded_attempts::UnrecordedAttempts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracked {
    Yes,
    No,
}

impl DeliveryUpdate {
    /// An update that parks the delivery for at least `wait`.
    pub(super) fn parked(
        meta: DeliveryMeta,
        body: Bytes,
        source: DeliverySource,
        wait: Duration,
        tracked: Tracked,
    ) -> Self {
        let mut update = Self::new(meta, body, source, tracked, FollowUp::None);
        update.park();
        update.delivery_row.parked_until = (!wait.is_zero()).then(|| clock::now() + wait);
        update
    }

    /// An update that publishes the delivery to the queue.
    pub(super) fn queued(meta: DeliveryMeta, body: Bytes, source: DeliverySource, tracked: Tracked) -> Self {
        let mut update = Self::new(meta, body, source, tracked, FollowUp::Queue);
        update.delivery_row.next_attempt_at = Some(clock::now());
        update
    }

    /// An update that drops the delivery, because its subscription was removed.
    pub(super) fn dropped(meta: DeliveryMeta, body: Bytes, source: DeliverySource) -> Self {
        let mut update = Self::new(meta, body, source, Tracked::No, FollowUp::None);
        update.delivery_row.state = DeliveryState::Dropped;
        update
    }

    fn new(
        meta: DeliveryMeta,
        body: Bytes,
        source: DeliverySource,
        tracked: Tracked,
        follow_up: FollowUp,
    ) -> Self {
        let delivery_row = DeliveryRow::unchanged(&meta);
        Self { meta, body, delivery_row, attempt: None, follow_up, source, tracked }
    }

    /// Changes the update so that it parks the delivery. A delivery without a due time is due now.
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
    ///
    /// Of two with the same number of attempts the parked one is decisive, as in `deliveries.record`: its message and the duplicates
    /// of it are acknowledged, so only the parked row brings the delivery back.
    pub(super) fn order(&self) -> (Uuid, Uuid, bool, i16, Weight, bool) {
        let DeliveryRow { tenant_id, delivery_id, state, attempts, parked_at, .. } = self.delivery_row;
        let weight = match state {
            DeliveryState::Pending if parked_at.is_none() => Weight::Pending,
            DeliveryState::Pending => Weight::Parked,
            DeliveryState::Delivered | DeliveryState::DeadLettered | DeliveryState::Dropped => Weight::Ended,
        };
        let is_delivered = state == DeliveryState::Delivered;
        (tenant_id, delivery_id, is_delivered, attempts, weight, self.attempt.is_some())
    }
}

/// How decisive an update is among those of one delivery with the same number of attempts, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    Pending,
    Parked,
    Ended,
}

/// The last of several adjacent updates of each delivery, because one statement must not write a row twice.
pub(super) fn last_of_each(updates: &[DeliveryUpdate]) -> Vec<&DeliveryRow> {
    let mut last: Vec<&DeliveryRow> = Vec::with_capacity(updates.len());
    for DeliveryUpdate { delivery_row, .. } in updates {
        match last.last_mut() {
            Some(before) if before.delivery_id == delivery_row.delivery_id => *before = delivery_row,
            Some(_) | None => last.push(delivery_row),
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::in_flight::InFlight;
    use super::super::source::OutboxDelivery;
    use super::*;
    use chrono::DateTime;
    use common::model::TenantId;

    /// An update for a message of this attempt, not parked.
    fn update(attempt: i16) -> DeliveryUpdate {
        let meta = DeliveryMeta {
            tenant_id: TenantId(Uuid::from_u128(1)),
            delivery_id: Uuid::from_u128(2),
            subscription_id: Uuid::from_u128(3),
            event_id: Uuid::from_u128(4),
            event_type: "lead.assigned".to_owned(),
            attempt,
            published_at: DateTime::UNIX_EPOCH,
            traceparent: None,
            request_id: None,
        };
        let event = InFlight::default().add(meta.event_id, 1);
        DeliveryUpdate::queued(
            meta,
            Bytes::new(),
            DeliverySource::Outbox(OutboxDelivery::new(event)),
            Tracked::No,
        )
    }

    fn parked(attempt: i16) -> DeliveryUpdate {
        let mut parked = update(attempt);
        parked.follow_up = FollowUp::None;
        parked.park();
        parked
    }

    /// The update after a failed or successful attempt.
    fn attempted(attempt: i16, state: DeliveryState) -> DeliveryUpdate {
        let mut attempted = update(attempt);
        let DeliveryRow { tenant_id, delivery_id, .. } = attempted.delivery_row;
        attempted.delivery_row.state = state;
        attempted.delivery_row.attempts = attempt;
        attempted.attempt = Some(AttemptRow {
            tenant_id,
            delivery_id,
            attempt,
            at: DateTime::UNIX_EPOCH,
            status: None,
            error: None,
            response: None,
            duration_ms: 0,
        });
        attempted
    }

    /// The state, attempts and whether it is parked, of the row that a batch of these updates records, in either order.
    #[track_caller]
    fn recorded(
        one: impl Fn() -> DeliveryUpdate,
        other: impl Fn() -> DeliveryUpdate,
    ) -> (DeliveryState, i16, bool) {
        let recorded = [[one(), other()], [other(), one()]].map(|mut updates| {
            updates.sort_unstable_by_key(DeliveryUpdate::order);
            let rows = last_of_each(&updates);
            assert_eq!(rows.len(), 1);
            (rows[0].state, rows[0].attempts, rows[0].parked_at.is_some())
        });
        assert_eq!(recorded[0], recorded[1], "the order of the updates does not matter");
        recorded[0]
    }

    #[test]
    fn a_delivery_whose_message_was_acknowledged_stays_parked() {
        use DeliveryState::{DeadLettered, Delivered, Pending};
        // A crash left the message of the first attempt, and one of the second, which is parked.
        assert_eq!(recorded(|| attempted(1, Pending), || parked(2)), (Pending, 1, true));
        // The relay publishes an event again of which a delivery is parked.
        assert_eq!(recorded(|| update(1), || parked(1)), (Pending, 0, true));
        // An attempt after the parked one is decisive.
        assert_eq!(recorded(|| attempted(2, Pending), || parked(2)), (Pending, 2, false));
        assert_eq!(recorded(|| attempted(1, DeadLettered), || parked(2)), (DeadLettered, 1, false));
        assert_eq!(recorded(|| attempted(1, Delivered), || parked(3)), (Delivered, 1, false));
    }
}
