//! One attempt of a delivery: sign, send, classify. Knows neither queues nor tables.
//!
//! Receivers are strangers. What they can't do, whatever they answer: have an address connected to that isn't public
//! (D27), hold an attempt longer than its time, fill memory, keep a connection open that nobody waits for.

mod attempt;
mod connect_error;
mod connector;
mod failure;
mod network;
mod outgoing;
mod response;
mod retry_after;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

pub use attempt::{Attempt, Outcome};
pub use settings::{SenderError, SenderSettings};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use common::egress::ReceiverUrl;
use common::sealed::Secret;
use common::trace::TraceContext;
use connector::Connector;
use failure::Failure;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use network::{Network, System};
use response::Drain;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use uuid::Uuid;

/// Idle connections kept to one host and port.
const IDLE_PER_RECEIVER: usize = 16;
/// How long a connection is kept for the next request.
const IDLE: Duration = Duration::from_secs(15);
/// The most that is read of a response's head, in bytes.
const MAX_HEAD: usize = 16 << 10;

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
    /// The attempt's place in its trace: the receiver's parent.
    pub context: TraceContext,
}

/// Sends webhooks. Connections are kept alive; cheap to clone, and to use from many tasks at once.
#[derive(Clone, Debug)]
pub struct Sender {
    client: Client<Connector, Full<Bytes>>,
    timeout: Duration,
    drain: Drain,
}

impl Sender {
    /// A sender. Reads the root certificates.
    pub fn new(settings: &SenderSettings) -> Result<Self, SenderError> {
        Self::on(Box::new(System::default()), settings)
    }

    fn on(network: Box<dyn Network>, settings: &SenderSettings) -> Result<Self, SenderError> {
        let tls = tls::client(settings.ca_file.as_deref())?;
        let connector = Connector::new(network, settings.egress.clone(), tls, settings.timeout);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_RECEIVER)
            // A request that hasn't begun to go out on a connection that was just closed takes another one.
            .retry_canceled_requests(true)
            .http1_max_buf_size(MAX_HEAD)
            // Header names as the specification writes them, for receivers that compare them so.
            .http1_title_case_headers(true)
            // Of headers only Retry-After is looked at: a bad one doesn't spoil a status.
            .http1_ignore_invalid_headers_in_responses(true)
            .build(connector);
        Ok(Self { client, timeout: settings.timeout, drain: Drain::default() })
    }

    /// Makes one attempt, within the timeout. Cancelled, it may have been received all the same.
    pub async fn send(&self, webhook: &WebhookRequest<'_>) -> Attempt {
        let begun = Instant::now();
        match self.exchange(webhook).await {
            Ok(response) => self.answered(response, begun, webhook.now).await,
            Err(failure) => Attempt {
                outcome: failure.outcome,
                status: None,
                error: Some(failure.text),
                response: None,
                retry_after: None,
                duration: begun.elapsed(),
            },
        }
    }

    async fn exchange(&self, webhook: &WebhookRequest<'_>) -> Result<Response<Incoming>, Failure> {
        let in_time = timeout(self.timeout, self.exchange_in_any_time(webhook)).await;
        in_time.unwrap_or_else(|_elapsed| {
            Err(Failure::new(Outcome::Timeout, &format!("no status within {:?}", self.timeout)))
        })
    }

    /// A request that wasn't begun because its connection had been closed takes another one. As many as can be idle
    /// may have been closed at once.
    async fn exchange_in_any_time(
        &self,
        webhook: &WebhookRequest<'_>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut idle_left = IDLE_PER_RECEIVER;
        loop {
            let request = outgoing::request(webhook).map_err(|error| {
                Failure::new(Outcome::AddressRefused, &format!("url can't be sent to: {error}"))
            })?;
            match self.client.request(request).await {
                Ok(response) => return Ok(response),
                Err(error) if idle_left > 0 && failure::is_not_begun(&error) => idle_left -= 1,
                Err(error) => return Err(Failure::of(&error)),
            }
        }
    }

    async fn answered(&self, response: Response<Incoming>, begun: Instant, at: DateTime<Utc>) -> Attempt {
        let duration = begun.elapsed();
        let (head, body) = response.into_parts();
        let outcome = Outcome::of_status(head.status.as_u16());
        let kept = if outcome.is_delivered() {
            self.drain.take(body);
            None
        } else {
            response::excerpt(body, self.timeout.saturating_sub(duration)).await
        };
        Attempt {
            outcome,
            status: Some(head.status.as_u16()),
            error: None,
            response: kept,
            retry_after: retry_after::asked(head.status, &head.headers, at + duration),
            duration,
        }
    }
}
