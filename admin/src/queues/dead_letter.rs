//! A dead letter as it is shown: reason, time, type and ids, without personal data.

use common::broker::{DeadLetter, MacError, Queue};
use common::bundle::BundleMeta;
use common::clock;
use common::message::{BatchMeta, DeliveryMeta};
use common::model::TenantId;
use common::write::{WriteMeta, WriteTarget};
use serde::Serialize;
use uuid::Uuid;

/// A dead letter. Fields that do not apply or cannot be parsed are null.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterView {
    /// When the broker dead-lettered it, RFC 3339; null if it was published to the dead-letter queue directly.
    pub at: Option<String>,
    /// The broker's reason, such as `rejected` or `delivery_limit`; of a webhook the result of its last attempt.
    pub reason: Option<String>,
    /// The meaning of the reason, for people.
    pub why: &'static str,
    /// Its MAC; null if no master key was given to verify it with.
    pub mac: Option<MacStatus>,
    /// How often it was dead-lettered.
    pub count: Option<u64>,
    /// Size of its body in bytes.
    pub bytes: usize,
    /// AMQP `message-id`; absent if the sender set none.
    pub message_id: Option<String>,
    /// What its metadata tells: type, tenant, ids and time.
    #[serde(flatten)]
    pub metadata: LetterMetadata,
}

common::named! {
    /// Whether one of the programs published a message, and nobody has changed it since.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "camelCase")]
    pub enum MacStatus {
        /// Signed with a master key that is set now.
        Valid = "valid",
        /// Not signed. Actions of the CRM are unsigned, which the worker accepts unless `CONNECT_CRM_UNSIGNED` is `refuse`.
        Missing = "missing",
        /// Malformed, over other content, or signed with a master key that is not set any more.
        Wrong = "wrong",
    }
}

impl From<Result<(), MacError>> for MacStatus {
    fn from(verified: Result<(), MacError>) -> Self {
        match verified {
            Ok(()) => Self::Valid,
            Err(MacError::Unsigned) => Self::Missing,
            Err(MacError::Mismatch) => Self::Wrong,
        }
    }
}

/// The fields of a message's metadata. Fields that do not apply or cannot be parsed are null.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LetterMetadata {
    /// Such as `batch of 3`, `POST /clients`, `4 requests` or `lead.assigned`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The tenant that it is for.
    pub tenant_id: Option<TenantId>,
    /// The request that caused it.
    pub request_id: Option<Uuid>,
    /// The requests that travel in it, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request_ids: Vec<Uuid>,
    /// The delivery of a webhook.
    pub delivery_id: Option<Uuid>,
    /// The subscription of a webhook.
    pub subscription_id: Option<Uuid>,
    /// The outbound event of a webhook.
    pub event_id: Option<Uuid>,
    /// When it was published, RFC 3339.
    pub published_at: Option<String>,
    /// The result of a webhook's last attempt.
    #[serde(skip)]
    result: Option<String>,
}

impl DeadLetterView {
    /// A dead letter of `queue`, whose full name is `name`.
    pub(super) fn of(letter: &DeadLetter, mac: Option<MacStatus>, queue: Queue, name: &str) -> Self {
        let metadata = letter.meta.as_deref().map(|meta| LetterMetadata::parse(meta, queue));
        let state = match &metadata {
            None => MetadataState::Missing,
            Some(None) => MetadataState::Unreadable,
            Some(Some(_)) => MetadataState::Readable,
        };
        let metadata = metadata.flatten().unwrap_or_default();
        let cause = letter.cause_in(name);
        Self {
            at: cause.and_then(|cause| cause.at).map(clock::to_text),
            reason: cause.map(|cause| cause.reason.clone()).or_else(|| metadata.result.clone()),
            why: why(queue, cause.map(|cause| cause.reason.as_str()), mac, state),
            mac,
            count: cause.map(|cause| cause.count),
            bytes: letter.bytes,
            message_id: letter.message_id.clone(),
            metadata,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetadataState {
    Readable,
    Missing,
    Unreadable,
}

/// The meaning of the broker's reason for a message of `queue`.
fn why(queue: Queue, reason: Option<&str>, mac: Option<MacStatus>, metadata: MetadataState) -> &'static str {
    // First, because whoever has forged the message may have written the other reasons.
    if mac == Some(MacStatus::Wrong) {
        return "forged: its MAC does not match its content under the master keys that are set";
    }
    match (reason, metadata) {
        (Some("delivery_limit"), _) => "delivered too often without an ack: its consumers disconnected each time",
        (Some("expired"), _) => "waited too long",
        (Some("maxlen"), _) => "the queue was full",
        _ if mac == Some(MacStatus::Missing) && queue != Queue::Crm => "has no MAC: forged",
        _ if mac == Some(MacStatus::Missing) && reason.is_some() => {
            "cannot be parsed as an action, failed with an internal error, or has no MAC although CONNECT_CRM_UNSIGNED is refuse"
        }
        // Messages of the CRM have no metadata. The worker publishes those that failed to the dead-letter queue.
        _ if queue == Queue::Crm => "cannot be parsed as an action, or failed with an internal error",
        (_, MetadataState::Missing) => "has no metadata",
        (_, MetadataState::Unreadable) => "its metadata cannot be parsed",
        (_, MetadataState::Readable) if queue == Queue::Webhooks => "all attempts failed: see connectctl delivery show",
        (Some(_), MetadataState::Readable) => "its body cannot be parsed",
        (None, MetadataState::Readable) => "published to the dead-letter queue directly",
    }
}

impl LetterMetadata {
    fn parse(meta: &str, queue: Queue) -> Option<Self> {
        match queue {
            Queue::Events | Queue::Records if let Ok(bundle) = serde_json::from_str(meta) => {
                Some(Self::of_bundle(&bundle))
            }
            Queue::Events => serde_json::from_str(meta).ok().as_ref().map(Self::of_batch),
            Queue::Records => serde_json::from_str(meta).ok().as_ref().map(Self::of_write),
            Queue::Webhooks => serde_json::from_str(meta).ok().map(Self::of_delivery),
            Queue::Crm => None,
        }
    }

    fn of_bundle(meta: &BundleMeta) -> Self {
        Self {
            kind: Some(format!("{} requests", meta.parts.len())),
            tenant_id: Some(meta.caller.tenant_id),
            request_ids: meta.parts.iter().map(|part| part.request_id).collect(),
            published_at: Some(clock::to_text(meta.published_at)),
            ..Self::default()
        }
    }

    fn of_batch(meta: &BatchMeta) -> Self {
        Self {
            kind: Some(format!("batch of {}", meta.events)),
            tenant_id: Some(meta.caller.tenant_id),
            request_id: Some(meta.request_id),
            published_at: Some(clock::to_text(meta.published_at)),
            ..Self::default()
        }
    }

    fn of_write(meta: &WriteMeta) -> Self {
        let kind = match meta.target {
            WriteTarget::NewClient => "POST /clients",
            WriteTarget::Client(_) => "PATCH /clients/{clientId}",
            WriteTarget::NewLead => "POST /leads",
            WriteTarget::Lead(_) => "PATCH /leads/{leadId}",
            WriteTarget::Trip(_) => "PATCH /leads/{leadId}/trip",
        };
        Self {
            kind: Some(kind.to_owned()),
            tenant_id: Some(meta.caller.tenant_id),
            request_id: Some(meta.request_id),
            published_at: Some(clock::to_text(meta.published_at)),
            ..Self::default()
        }
    }

    fn of_delivery(meta: DeliveryMeta) -> Self {
        Self {
            kind: Some(meta.event_type),
            tenant_id: Some(meta.tenant_id),
            request_id: meta.request_id,
            request_ids: Vec::new(),
            delivery_id: Some(meta.delivery_id),
            subscription_id: Some(meta.subscription_id),
            event_id: Some(meta.event_id),
            published_at: Some(clock::to_text(meta.published_at)),
            result: Some(meta.reason).filter(|reason| !reason.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_no_program_signed_is_called_forged() {
        for queue in [Queue::Events, Queue::Records, Queue::Webhooks] {
            for reason in [None, Some("rejected"), Some("delivery_limit")] {
                let told = |mac| why(queue, reason, Some(mac), MetadataState::Readable);
                assert!(told(MacStatus::Wrong).starts_with("forged: "));
                let expected = reason != Some("delivery_limit");
                assert_eq!(told(MacStatus::Missing) == "has no MAC: forged", expected);
            }
        }
        let action = why(Queue::Crm, Some("rejected"), Some(MacStatus::Wrong), MetadataState::Missing);
        assert!(action.starts_with("forged: "));
    }

    #[test]
    fn nothing_is_called_forged_without_a_key_to_verify_it() {
        let action = why(Queue::Crm, Some("rejected"), None, MetadataState::Missing);
        assert_eq!(action, "cannot be parsed as an action, or failed with an internal error");
        let batch = why(Queue::Events, None, None, MetadataState::Readable);
        assert_eq!(batch, "published to the dead-letter queue directly");
    }
}
