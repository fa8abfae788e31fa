//! The bounds of what ingest takes in: whoever is beyond one is told 503 `overloaded`, and the operator which it was.

use crate::connections::UsedUpShare;
use crate::error::Refusal;
use common::broker::CallError;
use common::metrics::{Handles, REFUSED};
use metrics::Counter;

/// The counters of refusals.
static COUNTERS: Handles<Counter, { Bound::ALL.len() }> = Handles::new();

/// Why there is no room for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A trusted proxy passes on `CONNECT_MAX_CONNECTIONS_PER_PEER` requests of the address, its own connections included.
    Peer,
    /// The same of its network, `CONNECT_MAX_CONNECTIONS_PER_NETWORK`.
    Network,
    /// `CONNECT_MAX_IN_FLIGHT` requests are under way.
    InFlight,
    /// `CONNECT_MAX_IN_FLIGHT_PER_TENANT` requests of the agency are under way, or its equal part of all.
    InFlightPerTenant,
    /// More work waits to be applied than the worker does in `CONNECT_BACKLOG_TARGET`.
    Backlog,
    /// The agency's share of that is used up.
    BacklogShare,
    /// `CONNECT_BODY_BUDGET` bytes are allocated for bodies, or the share of an address or network.
    BodyBudget,
    /// Too many keys that are not in the cache wait to be looked up for an address or network.
    KeyLookUps,
    /// Too many signatures wait for the replay store.
    ReplayStore,
    /// Too many reads wait for the database.
    Reads,
    /// Too many requests wait to be published.
    PublishQueue,
    /// The broker isn't connected, or blocks publishers.
    Broker,
    /// The queue is full or gone.
    Queue,
}

impl Bound {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Peer,
        Self::Network,
        Self::InFlight,
        Self::InFlightPerTenant,
        Self::Backlog,
        Self::BacklogShare,
        Self::BodyBudget,
        Self::KeyLookUps,
        Self::ReplayStore,
        Self::Reads,
        Self::PublishQueue,
        Self::Broker,
        Self::Queue,
    ];

    /// The metric's label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Network => "network",
            Self::InFlight => "in_flight",
            Self::InFlightPerTenant => "in_flight_per_tenant",
            Self::Backlog => "backlog",
            Self::BacklogShare => "backlog_share",
            Self::BodyBudget => "body_budget",
            Self::KeyLookUps => "key_look_ups",
            Self::ReplayStore => "replay_store",
            Self::Reads => "reads",
            Self::PublishQueue => "publish_queue",
            Self::Broker => "broker",
            Self::Queue => "queue",
        }
    }

    /// Counts it and gives what the caller is told.
    pub fn refuse(self) -> Refusal {
        self.refuse_for(1)
    }

    /// The same, asking the caller to wait for so many seconds.
    pub fn refuse_for(self, retry_after: u32) -> Refusal {
        COUNTERS.get(self as usize, || metrics::counter!(REFUSED, "reason" => self.as_str())).increment(1);
        Refusal::Overloaded { retry_after }
    }

    /// The bound that is reached where a peer's share is used up.
    pub(crate) const fn of_share(share: UsedUpShare) -> Self {
        match share {
            UsedUpShare::Peer => Self::Peer,
            UsedUpShare::Network => Self::Network,
        }
    }

    /// What a call to the broker ran into; `None` when that was no bound: it wasn't answered.
    pub const fn of(error: CallError) -> Option<Self> {
        match error {
            CallError::Unavailable => Some(Self::Broker),
            CallError::Refused => Some(Self::Queue),
            CallError::NoAnswer => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_is_listed_at_its_place() {
        for (place, bound) in Bound::ALL.into_iter().enumerate() {
            assert_eq!(bound as usize, place);
        }
    }
}
