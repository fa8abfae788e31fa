//! What goes on record of a delivery, and what follows from it.

use super::job::{context, span};
use super::origin::Origin;
use crate::schedule::Wait;
use crate::store::{AttemptRow, Conclusion, State};
use bytes::Bytes;
use common::clock;
use common::message::DeliveryMeta;
use std::time::Duration;
use tracing::Span;
use uuid::Uuid;

/// What goes on record of a delivery.
#[derive(Debug)]
pub(super) struct Entry {
    /// What it is.
    pub meta: DeliveryMeta,
    /// The envelope.
    pub body: Bytes,
    /// What has become of it.
    pub conclusion: Conclusion,
    /// The attempt, if one was made.
    pub attempt: Option<AttemptRow>,
    /// What follows.
    pub follow_up: FollowUp,
    /// Who is told that it is on record.
    pub origin: Origin,
    /// Whether its attempt was opened, so that repeats of it wait for this.
    pub opened: Opened,
}

/// What follows.
#[derive(Clone, Copy, Debug)]
pub(super) enum FollowUp {
    /// Nothing.
    None,
    /// Another attempt, by a message that is published before the record is committed.
    Retry(Wait),
    /// The same attempt, by a message that is published before the record is committed.
    Queue,
    /// Its message goes to the dead-letter queue.
    DeadLetter,
}

/// Whether an attempt was opened (see [`OpenAttempts`](super::open::OpenAttempts)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    Yes,
    No,
}

impl Entry {
    /// The delivery waits in the database, for `wait` at least.
    pub(super) fn parked(
        meta: DeliveryMeta,
        body: Bytes,
        origin: Origin,
        wait: Duration,
        opened: Opened,
    ) -> Self {
        let mut entry = Self::new(meta, body, origin, opened, FollowUp::None);
        entry.park();
        entry.conclusion.parked_until = (!wait.is_zero()).then(|| clock::now() + wait);
        entry
    }

    /// The delivery goes into the queue.
    pub(super) fn queued(meta: DeliveryMeta, body: Bytes, origin: Origin, opened: Opened) -> Self {
        let mut entry = Self::new(meta, body, origin, opened, FollowUp::Queue);
        entry.conclusion.next_attempt_at = Some(clock::now());
        entry
    }

    /// The delivery has no receiver any more.
    pub(super) fn dropped(meta: DeliveryMeta, body: Bytes, origin: Origin) -> Self {
        let mut entry = Self::new(meta, body, origin, Opened::No, FollowUp::None);
        entry.conclusion.state = State::Dropped;
        entry
    }

    fn new(meta: DeliveryMeta, body: Bytes, origin: Origin, opened: Opened, follow_up: FollowUp) -> Self {
        let conclusion = Conclusion::unchanged(&meta);
        Self { meta, body, conclusion, attempt: None, follow_up, origin, opened }
    }

    /// The delivery waits in the database, until it is due or at once.
    pub(super) fn park(&mut self) {
        let now = clock::now();
        self.conclusion.parked_at = Some(now);
        self.conclusion.next_attempt_at.get_or_insert(now);
    }

    pub(super) fn span(&self) -> Span {
        span(&self.meta, context(&self.meta))
    }

    /// In one order everywhere, so that transactions never wait for each other in a ring; of several entries of one
    /// delivery the one that counts comes last.
    pub(super) fn order(&self) -> (Uuid, Uuid, bool, i16, bool) {
        let Conclusion { tenant_id, delivery_id, state, attempts, .. } = self.conclusion;
        (tenant_id, delivery_id, state == State::Delivered, attempts, self.attempt.is_some())
    }
}
