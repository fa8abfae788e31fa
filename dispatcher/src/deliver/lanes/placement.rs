//! Where a delivery goes that comes straight from the outbox: into its lane, through the queue, or back into the database.

use super::{AWAY, Class, IMPATIENCE, Lanes};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Direct deliveries of one lane of which nothing is known yet.
const NEW_AHEAD: usize = 8;

/// Where a direct delivery goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Placement {
    /// Into its lane, whose receiver responds soon.
    Proven,
    /// Into its lane, while lanes like it don't have their share of the direct deliveries: its receiver is slow, or
    /// nothing is known of it.
    Unproven,
    /// Through the queue, like everything while this program drains.
    Queue,
    /// Into the database: its lane has more to do than it gets to soon. It had better wait that long.
    Park(Duration),
}

impl<J> Lanes<J> {
    /// Where the next delivery to a subscription goes.
    pub(in super::super) fn place(&self, id: Uuid, now: Instant) -> Placement {
        if self.is_closed {
            return Placement::Queue;
        }
        let Some(lane) = self.lanes.get(&id) else { return Placement::Unproven };
        let wait = lane.expected_wait(lane.waiting.len(), self.bounds.each, now);
        if wait > self.patience() {
            self.congestion.begin(id);
            return Placement::Park(wait.clamp(AWAY.0, AWAY.1));
        }
        match lane.class(now) {
            Class::Fast if wait <= IMPATIENCE => Placement::Proven,
            Class::New if lane.waiting.len() + lane.began.len() >= NEW_AHEAD => Placement::Queue,
            Class::Fast | Class::Slow | Class::New => Placement::Unproven,
        }
    }
}
