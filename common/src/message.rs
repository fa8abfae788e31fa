//! What travels on the queues beside the body. Bodies are the bytes of the request, unchanged; only a bundle's body is
//! composed (see [`crate::bundle`]).

use crate::caller::Caller;
use crate::model::TenantId;
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
    /// The request's place in its trace. Absent from messages of the previous release.
    #[serde(default)]
    pub traceparent: Option<String>,
    /// The requests of a bundle, in the order of their events; empty for the batch of a single request, and absent from
    /// messages of the previous release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<BatchPart>,
}

/// One request of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchPart {
    /// The request.
    pub request_id: Uuid,
    /// Its place in its trace.
    #[serde(default)]
    pub traceparent: Option<String>,
    /// How many events it holds.
    pub events: u16,
    /// Length of their text in the body, in bytes.
    pub bytes: usize,
}

impl BatchMeta {
    /// As it travels in the message's header.
    pub fn to_header(&self) -> String {
        serde_json::to_string(self).expect("it has string keys")
    }
}

/// Metadata of an advisor action. The CRM needn't send any; only the queue's lag is known from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionMeta {
    /// When it was published.
    pub published_at: DateTime<Utc>,
    /// The sender's place in a trace. A header of that name does as well.
    #[serde(default)]
    pub traceparent: Option<String>,
}

/// Metadata of a delivery on the webhooks queue. The body is the envelope, byte by byte as it is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryMeta {
    /// The agency.
    pub tenant_id: TenantId,
    /// `X-Connect-Delivery`.
    pub delivery_id: Uuid,
    /// Who it goes to.
    pub subscription_id: Uuid,
    /// The outbound event.
    pub event_id: Uuid,
    /// The outbound event's type.
    pub event_type: String,
    /// Which attempt of the delivery this message stands for, from 1; grows over replays (D26).
    pub attempt: i16,
    /// When it was put into the queue, or, before a retry, into the queue of its wait.
    pub published_at: DateTime<Utc>,
    /// The place of what caused the event in its trace, where that is known.
    #[serde(default)]
    pub traceparent: Option<String>,
    /// The request that caused the event, where that is known.
    #[serde(default)]
    pub request_id: Option<Uuid>,
}

impl DeliveryMeta {
    /// As it travels in the message's header.
    pub fn to_header(&self) -> String {
        serde_json::to_string(self).expect("it has string keys")
    }
}
