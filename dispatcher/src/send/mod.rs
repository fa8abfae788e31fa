//! One attempt of a delivery: signs the request, sends it, classifies the response, and decides what is recorded. It uses neither
//! queues nor tables.
//!
//! Receivers are not trusted. Whatever they respond, they cannot make the sender connect to an address that is not public (D27),
//! prolong an attempt beyond its timeout, exhaust memory, or keep an unused connection open.

mod attempt;
mod delivery;
mod endpoint;
mod failure;
mod outgoing;
mod response;
mod retry_after;
mod settings;
#[cfg(test)]
mod tests;
mod tls;

use attempt::Attempt;
pub use attempt::Outcome;
pub(crate) use delivery::DeliverySender;
pub use settings::{SenderError, SenderSettings};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use common::egress::{Connector, HEAD_BYTES_MAX, HEAD_LINES_MAX, Network, ReceiverUrl, SeenStatus, SystemNetwork};
use common::sealed::Secret;
use common::trace::TraceContext;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Incoming;
use hyper::http::Extensions;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use uuid::Uuid;

/// Idle connections kept to one host and port.
const IDLE_PER_RECEIVER: usize = 32;
/// How long a connection is kept for the next request.
const IDLE: Duration = Duration::from_secs(15);

/// A webhook to be sent.
#[derive(Clone, Debug)]
pub(crate) struct WebhookRequest<'a> {
    /// The receiver's URL.
    pub url: &'a ReceiverUrl,
    /// `X-Connect-Tenant`: the tenant's slug.
    pub tenant: &'a str,
    /// `X-Connect-Event`.
    pub event_type: &'a str,
    /// `X-Connect-Delivery`.
    pub delivery_id: Uuid,
    /// `X-Connect-Sequence`.
    pub number: i64,
    /// `Webhook-Id`.
    pub event_id: Uuid,
    /// Signing secrets; during the overlap of a rotation the new one first.
    pub secrets: &'a [Secret],
    /// The envelope, byte for byte as it is signed and sent.
    pub body: Bytes,
    /// The current time, which becomes the signature's `t`.
    pub now: DateTime<Utc>,
    /// The trace context of the attempt, which is sent to the receiver.
    pub context: TraceContext,
}

/// Sends webhooks. Connections are kept alive; cheap to clone, and to use from many tasks at once.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    client: Client<Connector, Full<Bytes>>,
    timeout: Duration,
}

/// The status that the connection of a request has read, whatever became of the response's head. The connection forgets it: it must
/// not count for the next request.
fn take_status(connection: &CaptureConnection) -> Option<u16> {
    let mut extras = Extensions::new();
    connection.connection_metadata().as_ref()?.get_extras(&mut extras);
    let seen = extras.get::<SeenStatus>()?;
    let status = seen.get();
    seen.clear();
    status
}

impl Sender {
    /// A sender. Reads the root certificates.
    pub(crate) fn new(settings: &SenderSettings) -> Result<Self, SenderError> {
        Self::with_network(Arc::new(SystemNetwork), settings)
    }

    fn with_network(network: Arc<dyn Network>, settings: &SenderSettings) -> Result<Self, SenderError> {
        let tls = tls::client(settings.ca_file.as_deref())?;
        let connector = Connector::new(network, settings.egress.clone(), tls, settings.timeout);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_RECEIVER)
            // A request of which nothing was sent, because its connection was just closed, is sent on another connection.
            .retry_canceled_requests(true)
            // Above the bounds of a response's head, so that these apply.
            .http1_max_buf_size(2 * HEAD_BYTES_MAX)
            .http1_max_headers(HEAD_LINES_MAX + 1)
            // Header names are written as in the specification, for receivers that compare them case-sensitively.
            .http1_title_case_headers(true)
            // Only Retry-After is used, so an invalid other header must not fail the attempt.
            .http1_ignore_invalid_headers_in_responses(true)
            .build(connector);
        Ok(Self { client, timeout: settings.timeout })
    }

    /// Makes one attempt, within the timeout. If it is canceled the receiver may have received it.
    pub(crate) async fn send(&self, webhook: &WebhookRequest<'_>) -> Attempt {
        let begun = Instant::now();
        let mut seen = None;
        let failed = match timeout(self.timeout, self.exchange(webhook, &mut seen)).await {
            Ok(Ok(response)) => return self.classify(response, begun, webhook.now).await,
            Ok(Err(failed)) => failed,
            Err(_elapsed) => Attempt::without_status(Outcome::Timeout, &format!("no status within {:?}", self.timeout)),
        };
        let duration = begun.elapsed();
        match seen.as_ref().and_then(take_status) {
            Some(status) => {
                let outcome = Outcome::of_status(status);
                Attempt { outcome, status: Some(status), error: None, duration, ..failed }
            }
            None => Attempt { duration, ..failed },
        }
    }

    /// Retries on another connection if the receiver had closed an idle one before the request was sent. All idle connections
    /// may have been closed.
    async fn exchange(
        &self, webhook: &WebhookRequest<'_>, seen: &mut Option<CaptureConnection>,
    ) -> Result<Response<Incoming>, Attempt> {
        let mut idle_left = IDLE_PER_RECEIVER;
        loop {
            let mut request = outgoing::request(webhook).map_err(|error| {
                Attempt::without_status(Outcome::AddressRefused, &format!("url is not valid: {error}"))
            })?;
            let connection = seen.insert(capture_connection(&mut request));
            match self.client.request(request).await {
                Ok(response) => {
                    take_status(connection);
                    return Ok(response);
                }
                Err(error) if idle_left > 0 && failure::is_not_begun(&error) => idle_left -= 1,
                Err(error) => return Err(failure::failed(&error)),
            }
        }
    }

    async fn classify(&self, response: Response<Incoming>, begun: Instant, at: DateTime<Utc>) -> Attempt {
        let duration = begun.elapsed();
        let (head, body) = response.into_parts();
        let outcome = Outcome::of_status(head.status.as_u16());
        let kept = if outcome.is_delivered() {
            response::discard(body);
            None
        } else {
            response::excerpt(body, self.timeout.saturating_sub(duration)).await
        };
        Attempt {
            outcome,
            status: Some(head.status.as_u16()),
            error: None,
            response: kept,
            headers: if outcome.is_delivered() { None } else { response::explaining(&head.headers) },
            retry_after: retry_after::requested(head.status, &head.headers, at + duration),
            duration,
        }
    }
}
