//! One attempt of a delivery: sign, send, classify. Knows neither queues nor tables.

mod attempt;
mod settings;

pub use attempt::{Attempt, Outcome};
pub use settings::{SenderError, SenderSettings};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use common::egress::ReceiverUrl;
use common::sealed::Secret;
use uuid::Uuid;

/// A webhook to be sent.
#[derive(Clone, Debug)]
pub struct WebhookRequest<'a> {
    /// Where to.
    pub url: &'a ReceiverUrl,
    /// `X-Connect-Tenant`: the agency's slug.
    pub tenant: &'a str,
    /// `X-Connect-Event`.
    pub event_type: &'a str,
    /// `X-Connect-Delivery`.
    pub delivery_id: Uuid,
    /// What signs it; while a rotated secret still signs, the new one first.
    pub secrets: &'a [Secret],
    /// The envelope, byte by byte as it is signed and sent.
    pub body: Bytes,
    /// Now: the signature's `t`.
    pub now: DateTime<Utc>,
}

/// Sends webhooks. Connections are kept alive; cheap to clone, and to use from many tasks at once.
#[derive(Clone, Debug)]
pub struct Sender;

impl Sender {
    /// A sender. Reads the root certificates; within a runtime.
    pub fn new(_settings: &SenderSettings) -> Result<Self, SenderError> {
        Ok(Self)
    }

    /// Makes one attempt. Always ends within the timeout and about a second for a failed one's body.
    pub async fn send(&self, _request: &WebhookRequest<'_>) -> Attempt {
        std::future::ready(Attempt {
            outcome: Outcome::ConnectFailed,
            status: None,
            error: Some("nothing is sent yet".to_owned()),
            response: None,
            retry_after: None,
            duration: std::time::Duration::ZERO,
        })
        .await
    }
}
