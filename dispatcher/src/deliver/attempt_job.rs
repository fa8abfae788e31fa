//! One attempt: sends the webhook and derives the delivery's new state from the outcome.

use super::delivery_update::{DeliveryUpdate, FollowUp, Tracked};
use super::endpoint::Endpoint;
use super::lanes::Responsiveness;
use super::source::DeliverySource;
use crate::schedule::Schedule;
use crate::send::{Attempt, Outcome, Sender, WebhookRequest};
use crate::store::{AttemptRow, DeliveryRow};
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::limited;
use common::log_limit::LogLimit;
use common::message::DeliveryMeta;
use common::metrics::{
    self as names, SECRET_DECRYPTION_FAILURES, WEBHOOK_ATTEMPT_DURATION, WEBHOOK_ATTEMPTS, WEBHOOK_DEAD,
    WEBHOOK_RETRIES,
};
use common::model::DeliveryState;
use common::sealed::Secret;
use common::trace::{SpanKind, TraceContext, TraceSpan};
use std::sync::Arc;
use std::time::Duration;
use tracing::field::display;
use tracing::{Instrument, Span};

/// Limits the log lines about failed secret decryption.
static DECRYPTION_FAILED: LogLimit<1> = LogLimit::new();
/// Limits the log lines about deliveries whose attempts are used up.
static USED_UP: LogLimit<1> = LogLimit::new();

/// How long deliveries are parked after secret decryption failed.
const DECRYPTION_FAILED_WAIT: Duration = Duration::from_secs(30);

/// An attempt to be made.
#[derive(Debug)]
pub(super) struct AttemptJob {
    pub meta: DeliveryMeta,
    pub body: Bytes,
    /// Where the delivery came from.
    pub source: DeliverySource,
    pub endpoint: Arc<Endpoint>,
    /// Attempts made since the delivery was created or last replayed.
    pub made: u16,
}

#[derive(Debug)]
pub(super) struct AttemptRunner {
    pub sender: Sender,
    pub schedule: Schedule,
}

impl AttemptRunner {
    /// Makes the attempt. Returns what is to be recorded, and whether the receiver responded.
    pub(super) async fn attempt(&self, mut job: AttemptJob) -> (DeliveryUpdate, Responsiveness) {
        let parent = context(&job.meta);
        let trace_span = TraceSpan::begin(parent, "delivery", SpanKind::Client);
        if parent.is_none() {
            // Later attempts continue the trace that this one starts.
            job.meta.traceparent = Some(trace_span.context().to_header());
        }
        let span = span(&job.meta, Some(trace_span.context()));
        self.attempt_traced(job, trace_span).instrument(span).await
    }

    async fn attempt_traced(
        &self,
        job: AttemptJob,
        mut trace_span: TraceSpan,
    ) -> (DeliveryUpdate, Responsiveness) {
        let at = clock::now();
        let Some(secrets) = &job.endpoint.secrets else {
            limited!(
                DECRYPTION_FAILED[0], error, subscription = %job.meta.subscription_id,
                "secret decryption failed with this CONNECT_MASTER_KEY; parking the subscription's deliveries"
            );
            metrics::counter!(SECRET_DECRYPTION_FAILURES, "kind" => "subscription").increment(1);
            // Nothing was sent, so the attempt does not count.
            let parked =
                DeliveryUpdate::parked(job.meta, job.body, job.source, DECRYPTION_FAILED_WAIT, Tracked::Yes);
            return (parked, Responsiveness::Responded);
        };
        let attempt = self.send(&job, secrets, trace_span.context(), at).await;
        count(&attempt);
        set_attributes(&mut trace_span, &job.meta, &attempt);
        drop(trace_span);
        tracing::debug!(
            outcome = attempt.outcome.as_str(),
            attempt = job.meta.attempt,
            "webhook attempt finished"
        );
        let responsiveness = match attempt.outcome {
            Outcome::Delivered
            | Outcome::Redirect
            | Outcome::ClientError
            | Outcome::ServerError
            | Outcome::OtherStatus
            | Outcome::AddressRefused => Responsiveness::Responded,
            Outcome::Timeout
            | Outcome::NotResolved
            | Outcome::ConnectFailed
            | Outcome::TlsFailed
            | Outcome::ConnectionLost => Responsiveness::Unresponsive,
        };
        (self.update_after(job, &attempt, at), responsiveness)
    }

    async fn send(
        &self,
        job: &AttemptJob,
        secrets: &[Secret],
        context: TraceContext,
        now: DateTime<Utc>,
    ) -> Attempt {
        let Some(url) = &job.endpoint.url else {
            return nothing_sent(
                Outcome::AddressRefused,
                "the subscription's URL cannot be decrypted or parsed",
            );
        };
        let request = WebhookRequest {
            url,
            tenant: &job.endpoint.target.slug,
            event_type: &job.meta.event_type,
            delivery_id: job.meta.delivery_id,
            secrets,
            body: job.body.clone(),
            now,
            context,
        };
        self.sender.send(&request).await
    }

    fn update_after(&self, job: AttemptJob, attempt: &Attempt, at: DateTime<Utc>) -> DeliveryUpdate {
        let made = job.made.saturating_add(1);
        let is_delivered = attempt.outcome.is_delivered();
        let wait = if is_delivered {
            None
        } else {
            self.schedule.wait_after(made, attempt.retry_after, rand::random())
        };
        let row = row(&job.meta, attempt, at);
        let (state, follow_up) = match (is_delivered, wait) {
            (true, _) => (DeliveryState::Delivered, FollowUp::None),
            (false, Some(wait)) => {
                metrics::counter!(WEBHOOK_RETRIES, "attempt" => (made + 1).to_string()).increment(1);
                (DeliveryState::Pending, FollowUp::Retry(wait))
            }
            (false, None) => {
                metrics::counter!(WEBHOOK_DEAD).increment(1);
                limited!(
                    USED_UP[0], warn, subscription = %job.meta.subscription_id, attempts = made,
                    outcome = attempt.outcome.as_str(), "webhook attempts used up; dead-lettering the delivery"
                );
                (DeliveryState::DeadLettered, FollowUp::DeadLetter)
            }
        };
        let next = wait.map(|wait| clock::now() + TimeDelta::from_std(wait.length).unwrap_or(TimeDelta::MAX));
        let delivery_row = DeliveryRow {
            state,
            attempts: job.meta.attempt,
            next_attempt_at: next,
            ..DeliveryRow::unchanged(&job.meta)
        };
        DeliveryUpdate {
            meta: job.meta,
            body: job.body,
            delivery_row,
            attempt: Some(row),
            follow_up,
            source: job.source,
            tracked: Tracked::Yes,
        }
    }
}

/// The trace context of a delivery; `None` if what caused the event had none.
pub(super) fn context(meta: &DeliveryMeta) -> Option<TraceContext> {
    meta.traceparent.as_deref().and_then(TraceContext::parse)
}

/// The span of log lines about a delivery.
pub(super) fn span(meta: &DeliveryMeta, context: Option<TraceContext>) -> Span {
    let request_id = meta.request_id.map(display);
    let trace_id = context.map(|context| display(context.trace_id));
    tracing::error_span!("delivery", delivery_id = %meta.delivery_id, request_id, trace_id)
}

fn row(meta: &DeliveryMeta, attempt: &Attempt, at: DateTime<Utc>) -> AttemptRow {
    AttemptRow {
        tenant_id: meta.tenant_id.0,
        delivery_id: meta.delivery_id,
        attempt: meta.attempt,
        at,
        status: attempt.status.and_then(|status| i16::try_from(status).ok()),
        error: attempt.error.clone(),
        response: attempt.response.clone(),
        duration_ms: i32::try_from(attempt.duration.as_millis()).unwrap_or(i32::MAX),
    }
}

/// Sets the attributes of an attempt's span, without the receiver's URL, which may contain secrets.
fn set_attributes(trace_span: &mut TraceSpan, meta: &DeliveryMeta, attempt: &Attempt) {
    trace_span.set("connect.delivery_id", || meta.delivery_id.to_string());
    trace_span.set("connect.event_type", || meta.event_type.clone());
    trace_span.set("connect.attempt", || i64::from(meta.attempt));
    trace_span.set("connect.outcome", || attempt.outcome.as_str());
    if let Some(request_id) = meta.request_id {
        trace_span.set("connect.request_id", || request_id.to_string());
    }
    if let Some(status) = attempt.status {
        trace_span.set("http.response.status_code", || i64::from(status));
    }
    if !attempt.outcome.is_delivered() {
        trace_span.fail();
    }
}

fn nothing_sent(outcome: Outcome, why: &str) -> Attempt {
    Attempt {
        outcome,
        status: None,
        error: Some(why.to_owned()),
        response: None,
        retry_after: None,
        duration: Duration::ZERO,
    }
}

/// Exports the counters at 0, before there is something to count.
pub(super) fn register_counters(schedule: &Schedule) {
    for outcome in Outcome::ALL {
        names::register_counter(WEBHOOK_ATTEMPTS, &[("outcome", outcome.as_str())]);
    }
    for attempt in 2..=schedule.attempts {
        metrics::counter!(WEBHOOK_RETRIES, "attempt" => attempt.to_string()).absolute(0);
    }
    names::register_counter(WEBHOOK_DEAD, &[]);
    names::register_counter(SECRET_DECRYPTION_FAILURES, &[("kind", "subscription")]);
}

fn count(attempt: &Attempt) {
    metrics::counter!(WEBHOOK_ATTEMPTS, "outcome" => attempt.outcome.as_str()).increment(1);
    metrics::histogram!(WEBHOOK_ATTEMPT_DURATION).record(attempt.duration);
}
