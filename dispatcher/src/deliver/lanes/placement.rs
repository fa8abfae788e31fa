//! Placement of deliveries directly from the outbox: into the lane, through the queue, or parked.

use super::{EXPECTED_WAIT_MAX_WHEN_FULL, LaneClass, PARK_WAIT, SubscriptionLanes};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Maximum number of direct deliveries of a new lane.
const NEW_LANE_DIRECT_MAX: usize = 8;

/// Placement of a direct delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Placement {
    /// Into its lane, whose receiver responds quickly.
    FastLane,
    /// Into its lane, if the share of slow and new receivers has a free slot.
    SlowOrNewLane,
    /// Through the queue, as all deliveries while this program drains.
    Queue,
    /// Parked for this long, because its lane is full.
    Park(Duration),
}

impl<J> SubscriptionLanes<J> {
    /// The placement of the next delivery to a subscription.
    pub(in super::super) fn placement(&self, id: Uuid, now: Instant) -> Placement {
        if self.is_closed {
            return Placement::Queue;
        }
        let Some(lane) = self.lanes.get(&id) else { return Placement::SlowOrNewLane };
        let wait = lane.expected_wait(lane.waiting.len(), self.bounds.each, now);
        if wait > self.expected_wait_max() {
            self.congestion.begin(id);
            return Placement::Park(wait.clamp(PARK_WAIT.0, PARK_WAIT.1));
        }
        match lane.class(now) {
            LaneClass::Fast if wait <= EXPECTED_WAIT_MAX_WHEN_FULL => Placement::FastLane,
            LaneClass::New if lane.waiting.len() + lane.running.len() >= NEW_LANE_DIRECT_MAX => {
                Placement::Queue
            }
            LaneClass::Fast | LaneClass::Slow | LaneClass::New => Placement::SlowOrNewLane,
        }
    }
}
