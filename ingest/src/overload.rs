//! The gates that refuse with 503 `overloaded`: callers see the code only, metrics show the gate.

use crate::refusal::Refusal;
use common::metrics::{Handles, OVERLOADED};
use metrics::Counter;
use strum::{EnumCount, IntoStaticStr, VariantArray};

static COUNTERS: Handles<Counter, { OverloadReason::COUNT }> = Handles::new();

/// A gate, in the order in which a request passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum OverloadReason {
    /// A trusted proxy passes on as many requests of the address or network as these may have connections. Who connects
    /// directly gets no response: the connection is closed.
    Connections,
    /// `CONNECT_BODY_BUDGET` bytes are allocated for bodies, or an address or network has used up its share of them.
    Body,
    /// The tenant has used up its share of the work that may wait to be applied (`admission`), or of the requests that
    /// may wait at the end of a feed.
    Tenant,
    /// The broker is not connected, blocks publishers or is slow to confirm, or its queue is full or does not exist.
    Queue,
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
