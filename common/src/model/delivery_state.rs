//! The states of a webhook delivery.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of a delivery: one outbound event for one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Further attempts follow.
    Pending,
    /// The receiver responded with a 2xx.
    Delivered,
    /// All attempts failed; it stays until it is replayed.
    #[serde(rename = "dead")]
    DeadLettered,
    /// Its subscription was removed before it was delivered.
    Dropped,
}

impl DeliveryState {
    /// Each state once.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Delivered, Self::DeadLettered, Self::Dropped];

    /// As stored and in JSON; also the metric's label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::DeadLettered => "dead",
            Self::Dropped => "dropped",
        }
    }

    /// The state of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

impl fmt::Display for DeliveryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::DeliveryState;

    #[test]
    fn each_state_has_the_same_name_in_json_and_in_the_database() {
        for state in DeliveryState::ALL {
            assert_eq!(serde_json::json!(state), state.as_str());
            assert_eq!(DeliveryState::parse(state.as_str()), Some(state));
        }
    }
}
