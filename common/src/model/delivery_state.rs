//! The states of a webhook delivery.

use serde::{Deserialize, Serialize};

crate::named! {
    /// The state of a delivery: one outbound event for one subscription.
    /// Names are those in the database and in JSON, and labels of metrics.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DeliveryState {
        /// Further attempts follow.
        Pending = "pending",
        /// The receiver responded with a 2xx.
        Delivered = "delivered",
        /// All attempts failed; it stays until it is replayed.
        #[serde(rename = "dead")]
        DeadLettered = "dead",
        /// Its subscription was removed before it was delivered, or it was a test event that failed.
        Dropped = "dropped",
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
