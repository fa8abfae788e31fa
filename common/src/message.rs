//! Metadata of the messages on the queues. Bodies are the bytes of the request, unchanged. Several small requests may be
//! parts of one message, each with its metadata (see [`crate::bundle`]).

use crate::caller::Caller;
use crate::model::TenantId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// Metadata of a batch of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchMeta {
    /// The caller of the request; first, so that a bundle contains it once.
    pub caller: Caller,
    /// The id of the request; also the message's correlation id, unless the message is a bundle.
    pub request_id: Uuid,
    /// When the message was published.
    pub published_at: DateTime<Utc>,
    /// The number of events in the batch.
    pub events: u16,
    /// Whether nothing is to be written (`Connect-Dry-Run`, D46). A worker that ignored it would write.
    pub dry_run: bool,
    /// The request's trace context, as a W3C `traceparent`.
    pub traceparent: Option<String>,
}

impl BatchMeta {
    /// The JSON of the message's header.
    pub fn to_header(&self) -> String {
        serde_json::to_string(self).expect("it has string keys")
    }
}

/// Metadata of an advisor action. It is optional, and used for the queue's lag and the trace only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionMeta {
    /// When it was published.
    pub published_at: DateTime<Utc>,
    /// The sender's trace context; the AMQP header `traceparent` is accepted as well.
    pub traceparent: Option<String>,
}

/// The id of the delivery of an event to a subscription. It is derived from both, so that an event that is fanned out twice has
/// one delivery. A UUIDv7 with the event's time.
pub fn delivery_id(event_id: Uuid, subscription_id: Uuid) -> Uuid {
    let digest = Sha256::new().chain_update(event_id).chain_update(subscription_id).finalize();
    let mut bytes = *event_id.as_bytes();
    bytes[6..].copy_from_slice(&digest[..10]);
    Builder::from_bytes(bytes).with_version(uuid::Version::SortRand).with_variant(uuid::Variant::RFC4122).into_uuid()
}

/// A notice in the dead-letter queue of webhooks: a delivery whose attempts were used up. Without personal data; also its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryMeta {
    /// The tenant that the event belongs to.
    pub tenant_id: TenantId,
    /// `X-Connect-Delivery`.
    pub delivery_id: Uuid,
    /// The subscription that receives it.
    pub subscription_id: Uuid,
    /// The outbound event, by its id in the outbox.
    pub event_id: Uuid,
    /// The outbound event's type.
    pub event_type: String,
    /// The number of the last attempt, from 1; a replay continues the numbering (D26).
    pub attempt: i16,
    /// When it was published.
    pub published_at: DateTime<Utc>,
    /// The trace context of the event's cause, if known.
    pub traceparent: Option<String>,
    /// The request that caused the event, if known.
    pub request_id: Option<Uuid>,
    /// The result of the last attempt.
    pub reason: String,
}

impl DeliveryMeta {
    /// The JSON of the message's header.
    pub fn to_header(&self) -> String {
        serde_json::to_string(self).expect("it has string keys")
    }
}
