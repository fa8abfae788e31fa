//! One attempt: opened, sent, and what follows from how it went.

use super::endpoint::Endpoint;
use super::entry::{Entry, FollowUp, Opened};
use super::lanes::Answer;
use super::origin::Origin;
use crate::schedule::Schedule;
use crate::send::{Attempt, Outcome, Sender, WebhookRequest};
use crate::store::{AttemptRow, Conclusion, State};
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::limited;
use common::log_limit::LogLimit;
use common::message::DeliveryMeta;
use common::metrics::{
    self as names, SEALED_UNOPENED, WEBHOOK_ATTEMPT_DURATION, WEBHOOK_ATTEMPTS, WEBHOOK_DEAD, WEBHOOK_RETRIES,
};
use common::sealed::Secret;
use common::trace::{SpanKind, TraceContext, TraceSpan};
use std::sync::Arc;
use std::time::Duration;
use tracing::field::display;
use tracing::{Instrument, Span};

/// Which deliveries are logged whose secret can't be opened.
static SEALED: LogLimit<1> = LogLimit::new();
/// Which deliveries are logged whose attempts are used up.
static USED_UP: LogLimit<1> = LogLimit::new();

/// How long deliveries wait whose secret can't be opened.
const SEALED_WAIT: Duration = Duration::from_secs(30);

/// A delivery that is to be tried.
#[derive(Debug)]
pub(super) struct Job {
    /// What it is.
    pub meta: DeliveryMeta,
    /// The envelope.
    pub body: Bytes,
    /// Who is told when it is on record.
    pub origin: Origin,
    /// Where it goes.
    pub endpoint: Arc<Endpoint>,
    /// Attempts made since the delivery was made, or last replayed.
    pub made: u16,
}

/// What every attempt needs.
#[derive(Debug)]
pub(super) struct Means {
    pub sender: Sender,
    pub schedule: Schedule,
}

impl Means {
    /// Makes the attempt. Gives what is to be put on record, and whether the receiver answered.
    pub(super) async fn attempt(&self, mut job: Job) -> (Entry, Answer) {
        let parent = context(&job.meta);
        let traced = TraceSpan::begin(parent, "delivery", SpanKind::Client);
        if parent.is_none() {
            // What comes after this attempt goes on with the trace that it began.
            job.meta.traceparent = Some(traced.context().to_header());
        }
        let span = span(&job.meta, Some(traced.context()));
        self.attempt_traced(job, traced).instrument(span).await
    }

    async fn attempt_traced(&self, job: Job, mut traced: TraceSpan) -> (Entry, Answer) {
        let at = clock::now();
        let Some(secrets) = &job.endpoint.secrets else {
            limited!(
                SEALED[0], error, subscription = %job.meta.subscription_id,
                "the subscription's secret can't be opened with this CONNECT_MASTER_KEY; its deliveries wait"
            );
            metrics::counter!(SEALED_UNOPENED, "of" => "subscription").increment(1);
            // A fault of ours, not the receiver's: no attempt is used up.
            let parked = Entry::parked(job.meta, job.body, job.origin, SEALED_WAIT, Opened::Yes);
            return (parked, Answer::Came);
        };
        let attempt = self.send(&job, secrets, traced.context(), at).await;
        count(&attempt);
        tell(&mut traced, &job.meta, &attempt);
        drop(traced);
        tracing::debug!(outcome = attempt.outcome.as_str(), attempt = job.meta.attempt, "attempted");
        let answer = match attempt.outcome {
            Outcome::Delivered
            | Outcome::Redirect
            | Outcome::ClientError
            | Outcome::ServerError
            | Outcome::OtherStatus
            | Outcome::AddressRefused => Answer::Came,
            Outcome::Timeout
            | Outcome::NotResolved
            | Outcome::ConnectFailed
            | Outcome::TlsFailed
            | Outcome::ConnectionLost => Answer::Failed,
        };
        (self.conclude(job, &attempt, at), answer)
    }

    async fn send(
        &self,
        job: &Job,
        secrets: &[Secret],
        context: TraceContext,
        now: DateTime<Utc>,
    ) -> Attempt {
        let Some(url) = &job.endpoint.url else {
            return nothing_sent(Outcome::AddressRefused, "the subscription's URL can't be read");
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

    fn conclude(&self, job: Job, attempt: &Attempt, at: DateTime<Utc>) -> Entry {
        let made = job.made.saturating_add(1);
        let wait = if attempt.outcome.is_delivered() {
            None
        } else {
            self.schedule.wait_after(made, attempt.retry_after, rand::random())
        };
        let row = row(&job.meta, attempt, at);
        let (state, follow_up) = match wait {
            _ if attempt.outcome.is_delivered() => (State::Delivered, FollowUp::None),
            Some(wait) => {
                metrics::counter!(WEBHOOK_RETRIES, "attempt" => (made + 1).to_string()).increment(1);
                (State::Pending, FollowUp::Retry(wait))
            }
            None => {
                metrics::counter!(WEBHOOK_DEAD).increment(1);
                limited!(
                    USED_UP[0], warn, subscription = %job.meta.subscription_id, attempts = made,
                    outcome = attempt.outcome.as_str(), "attempts used up: dead letter"
                );
                (State::Dead, FollowUp::DeadLetter)
            }
        };
        let next = wait.map(|wait| clock::now() + TimeDelta::from_std(wait.length).unwrap_or(TimeDelta::MAX));
        let conclusion = Conclusion {
            state,
            attempts: job.meta.attempt,
            next_attempt_at: next,
            ..Conclusion::unchanged(&job.meta)
        };
        Entry {
            meta: job.meta,
            body: job.body,
            conclusion,
            attempt: Some(row),
            follow_up,
            origin: job.origin,
            opened: Opened::Yes,
        }
    }
}

/// The place in its trace that a delivery came with. Absent from messages of the previous release.
pub(super) fn context(meta: &DeliveryMeta) -> Option<TraceContext> {
    meta.traceparent.as_deref().and_then(TraceContext::parse)
}

/// What the log lines of a delivery name.
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

/// What the collector is told of an attempt. Receivers' URLs may hold secrets.
fn tell(traced: &mut TraceSpan, meta: &DeliveryMeta, attempt: &Attempt) {
    traced.set("connect.delivery_id", || meta.delivery_id.to_string());
    traced.set("connect.event_type", || meta.event_type.clone());
    traced.set("connect.attempt", || i64::from(meta.attempt));
    traced.set("connect.outcome", || attempt.outcome.as_str());
    if let Some(request_id) = meta.request_id {
        traced.set("connect.request_id", || request_id.to_string());
    }
    if let Some(status) = attempt.status {
        traced.set("http.response.status_code", || i64::from(status));
    }
    if !attempt.outcome.is_delivered() {
        traced.fail();
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

/// Shows what is counted here, before there is something to count.
pub(super) fn show_counters(schedule: &Schedule) {
    for outcome in Outcome::ALL {
        names::show(WEBHOOK_ATTEMPTS, &[("outcome", outcome.as_str())]);
    }
    for attempt in 2..=schedule.attempts {
        metrics::counter!(WEBHOOK_RETRIES, "attempt" => attempt.to_string()).absolute(0);
    }
    names::show(WEBHOOK_DEAD, &[]);
    names::show(SEALED_UNOPENED, &[("of", "subscription")]);
}

fn count(attempt: &Attempt) {
    metrics::counter!(WEBHOOK_ATTEMPTS, "outcome" => attempt.outcome.as_str()).increment(1);
    metrics::histogram!(WEBHOOK_ATTEMPT_DURATION).record(attempt.duration);
}
