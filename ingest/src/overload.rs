//! The reasons for 503 `overloaded`: callers see the code only, metrics show the reason.

use crate::refusal::Refusal;
use common::http::ConnectionRefusal;
use common::metrics::{Handles, OVERLOADED};
use metrics::Counter;
use strum::{EnumCount, IntoStaticStr, VariantArray};

static COUNTERS: Handles<Counter, { OverloadReason::COUNT }> = Handles::new();

/// The limit that a refused request has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum OverloadReason {
    /// A trusted proxy passes on `CONNECT_MAX_CONNECTIONS_PER_PEER` requests of the address, its own connections included.
    Peer,
    /// The same for its network, with `CONNECT_MAX_CONNECTIONS_PER_NETWORK`.
    Network,
    /// `CONNECT_MAX_IN_FLIGHT` requests are under way.
    InFlight,
    /// `CONNECT_MAX_IN_FLIGHT_PER_TENANT` requests of the tenant are under way, or an equal share of
    /// `CONNECT_MAX_IN_FLIGHT`.
    InFlightPerTenant,
    /// More work waits to be applied than the worker does in `CONNECT_BACKLOG_TARGET`.
    Backlog,
    /// The tenant's share of the backlog is used up.
    BacklogShare,
    /// `CONNECT_BODY_BUDGET` bytes are allocated for bodies, or an address or network has used up its share of them.
    BodyBudget,
    /// Too many signatures wait for the replay store.
    ReplayStore,
    /// Too many reads wait for the database.
    Reads,
    /// Too many requests wait to be published.
    PublishQueue,
    /// The broker is not connected, or blocks publishers.
    Broker,
    /// The broker's queue is full, or does not exist.
    #[strum(serialize = "queue")]
    BrokerQueue,
}

impl From<ConnectionRefusal> for OverloadReason {
    fn from(share: ConnectionRefusal) -> Self {
        match share {
            ConnectionRefusal::Peer => Self::Peer,
            ConnectionRefusal::All | ConnectionRefusal::Network => Self::Network,
        }
    }
}

impl OverloadReason {
    /// All reasons, in the order of their declaration.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The value of the metric's label `reason`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Counts the refusal and returns it, with `Retry-After: 1`.
    pub(crate) fn refuse(self) -> Refusal {
        self.refuse_after(1)
    }

    /// The same with another `Retry-After`, in seconds.
    pub(crate) fn refuse_after(self, retry_after: u32) -> Refusal {
        COUNTERS.get(self as usize, || metrics::counter!(OVERLOADED, "reason" => self.as_str())).increment(1);
        Refusal::Overloaded { retry_after }
    }
}
