//! What travels on the queues beside the body. Bodies are the bytes of the request, unchanged.

use crate::caller::Caller;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Metadata of a batch of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchMeta {
    /// The request; also the message's correlation id.
    pub request_id: Uuid,
    /// Who sent it.
    pub caller: Caller,
    /// When it was published.
    pub published_at: DateTime<Utc>,
    /// How many events it holds.
    pub events: u16,
}
