//! An attempt of a delivery: sends the webhook, and decides by the outcome what is recorded.

use super::endpoint::{Endpoint, Endpoints};
use super::{Attempt, Outcome, Sender, WebhookRequest};
use crate::schedule::Schedule;
use crate::store::{AttemptRecord, Delivery, Lease, OutboundEvent};
use chrono::{DateTime, Utc};
use common::egress::LOOK_UP_OWNER;
use common::event::TEST_EVENT_TYPE;
use common::log_limit::LogLimit;
use common::metrics::{
    self as names, SECRET_DECRYPTION_FAILURES, WEBHOOK_ATTEMPT_DURATION, WEBHOOK_ATTEMPTS, WEBHOOK_DEAD,
    WEBHOOK_RETRIES,
};
use common::model::DeliveryState;
use common::sealed::MasterKeys;
use common::trace::{SpanKind, TraceContext, TraceSpan};
use common::{clock, limited};
use std::sync::Arc;
use tracing::Instrument as _;

/// Limits the log lines, by reason: failed secret decryption, and deliveries whose attempts are used up.
static LINES: LogLimit<2> = LogLimit::new();

/// Attempts deliveries. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct DeliverySender {
    sender: Sender,
    endpoints: Arc<Endpoints>,
    schedule: Schedule,
}

impl DeliverySender {
    pub(crate) fn new(sender: Sender, masters: MasterKeys, schedule: Schedule) -> Self {
        register_counters(&schedule);
        Self { sender, endpoints: Arc::new(Endpoints::new(masters)), schedule }
    }

    /// Whether the secrets of the delivery's subscription can be opened; counts and logs if not.
    pub(crate) fn can_send(&self, delivery: &Delivery) -> bool {
        let can_send = self.endpoints.of(delivery).secrets.is_some();
        if !can_send {
            limited!(
                LINES[0], error, subscription = %delivery.subscription_id,
                "secret decryption failed with this CONNECT_MASTER_KEY; the subscription's deliveries wait"
            );
            metrics::counter!(SECRET_DECRYPTION_FAILURES, "kind" => "subscription").increment(1);
        }
        can_send
    }

    /// Makes an attempt, which the lease permits. Returns what is to be recorded, and whether the receiver responded.
    pub(crate) async fn attempt(&self, delivery: Delivery, lease: Lease) -> (AttemptRecord, bool) {
        let event = delivery.event.as_ref();
        let request_id = event.and_then(|event| event.request_id);
        let parent = event.and_then(|event| TraceContext::parse(event.traceparent.as_deref()?));
        // Without a cause, all attempts are of the trace that is named like the delivery.
        let id = delivery.delivery_id;
        let mut trace_span = TraceSpan::begin_named_like(id, parent, "delivery", SpanKind::Client);
        let trace_id = trace_span.context().trace_id;
        let span = tracing::error_span!("delivery", delivery_id = %id, request_id = request_id.map(tracing::field::display), %trace_id);
        async {
            let at = clock::database_now();
            let attempt = self.send(&delivery, trace_span.context(), at).await;
            metrics::counter!(WEBHOOK_ATTEMPTS, "outcome" => attempt.outcome.as_str()).increment(1);
            metrics::histogram!(WEBHOOK_ATTEMPT_DURATION).record(attempt.duration);
            set_attributes(&mut trace_span, &delivery, &attempt);
            drop(trace_span);
            let number = delivery.attempts.saturating_add(1);
            tracing::debug!(outcome = attempt.outcome.as_str(), attempt = number, "webhook attempt finished");
            let has_responded = attempt.outcome.has_responded();
            (self.record(&delivery, lease, attempt, at), has_responded)
        }
        .instrument(span)
        .await
    }

    async fn send(&self, delivery: &Delivery, context: TraceContext, now: DateTime<Utc>) -> Attempt {
        let endpoint = self.endpoints.of(delivery);
        let refused = |why| Attempt::without_status(Outcome::AddressRefused, why);
        let Some(OutboundEvent { event_type, envelope, .. }) = &delivery.event else {
            return refused("the event is not stored any more");
        };
        let Endpoint { url: Some(url), secrets: Some(secrets), .. } = &*endpoint else {
            return refused("the subscription's URL cannot be decrypted or parsed");
        };
        let request = WebhookRequest {
            url,
            tenant: &delivery.target.slug,
            event_type,
            delivery_id: delivery.delivery_id,
            number: delivery.number,
            event_id: delivery.event_id,
            secrets,
            body: envelope.clone(),
            now,
            context,
        };
        // Tenants share the lookups of names.
        LOOK_UP_OWNER.scope(delivery.tenant_id, self.sender.send(&request)).await
    }

    fn record(&self, delivery: &Delivery, lease: Lease, attempt: Attempt, at: DateTime<Utc>) -> AttemptRecord {
        let attempts = delivery.attempts.saturating_add(1);
        // Since the delivery was created or last replayed.
        let made = u16::try_from(attempts.saturating_sub(delivery.attempts_before_replay)).unwrap_or(1);
        let is_delivered = attempt.outcome.is_delivered();
        let is_test = delivery.event.as_ref().is_some_and(|event| event.event_type == TEST_EVENT_TYPE);
        // No further attempt of the last number could be counted.
        let can_retry = delivery.event.is_some() && !is_delivered && !is_test && attempts < i16::MAX;
        let wait = || self.schedule.wait_after(made, attempt.retry_after, rand::random());
        let due_in = can_retry.then(wait).flatten();
        let state = match (is_delivered, due_in) {
            (true, _) => DeliveryState::Delivered,
            (false, Some(_)) => {
                metrics::counter!(WEBHOOK_RETRIES, "attempt" => (made + 1).to_string()).increment(1);
                DeliveryState::Pending
            }
            (false, None) if is_test => DeliveryState::Dropped,
            (false, None) => {
                metrics::counter!(WEBHOOK_DEAD).increment(1);
                limited!(
                    LINES[1], warn, subscription = %delivery.subscription_id, attempts = made,
                    outcome = attempt.outcome.as_str(), "webhook attempts used up; dead-lettering the delivery"
                );
                DeliveryState::DeadLettered
            }
        };
        AttemptRecord {
            lease,
            tenant_id: delivery.tenant_id,
            subscription_id: delivery.subscription_id,
            number: delivery.number,
            delivery_id: delivery.delivery_id,
            state,
            attempts,
            due_in,
            at,
            status: attempt.status.and_then(|status| i16::try_from(status).ok()),
            error: attempt.error,
            response: attempt.response,
            headers: attempt.headers,
            duration_ms: i32::try_from(attempt.duration.as_millis()).unwrap_or(i32::MAX),
        }
    }
}

/// Sets the attributes of an attempt's span, without the receiver's URL, which may contain secrets.
fn set_attributes(trace_span: &mut TraceSpan, delivery: &Delivery, attempt: &Attempt) {
    trace_span.set("connect.delivery_id", || delivery.delivery_id.to_string());
    if let Some(event) = &delivery.event {
        trace_span.set("connect.event_type", || event.event_type.clone());
        if let Some(request_id) = event.request_id {
            trace_span.set("connect.request_id", || request_id.to_string());
        }
    }
    trace_span.set("connect.attempt", || i64::from(delivery.attempts) + 1);
    trace_span.set("connect.outcome", || attempt.outcome.as_str());
    if let Some(status) = attempt.status {
        trace_span.set("http.response.status_code", || i64::from(status));
    }
    if !attempt.outcome.is_delivered() {
        trace_span.fail();
    }
}

/// Exports the counters at 0, before there is something to count.
fn register_counters(schedule: &Schedule) {
    for outcome in Outcome::ALL {
        names::register_counter(WEBHOOK_ATTEMPTS, &[("outcome", outcome.as_str())]);
    }
    for attempt in 2..=schedule.attempts {
        metrics::counter!(WEBHOOK_RETRIES, "attempt" => attempt.to_string()).absolute(0);
    }
    names::register_counter(WEBHOOK_DEAD, &[]);
    names::register_counter(SECRET_DECRYPTION_FAILURES, &[("kind", "subscription")]);
}
