//! The events queue: several waiting messages are applied as one unit. A unit that fails is applied in halves, and a half that
//! fails again in halves, so that one bad event fails alone (D8) and costs the others few transactions. A unit that finds a lock
//! is applied tenant by tenant, and the messages of a tenant that is locked are put off: no tenant waits for another's lock.

use super::events_message::{EventsMessage, UNREADABLE_REASONS, UnreadableMessage, parse_meta};
use super::unit_span;
use crate::pipeline::Pipeline;
use crate::pipeline::events::UnitEvent;
use crate::service::UNIT_EVENTS;
use common::activity::{self, Cause};
use common::broker::{Message, MessageOutcome, Queue, UnitHandler};
use common::db::TxError;
use common::event::{BatchResult, Envelope, EventResult, EventStatus, InboundType};
use common::limited;
use common::log_limit::LogLimit;
use common::message::BatchMeta;
use common::metrics::{APPLY_DURATION, EVENTS};
use common::model::TenantId;
use common::outage::Outage;
use common::trace::{RequestContext, TraceContext};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

pub(super) static OUTAGE: Outage = Outage::new("apply events", "Postgres is unavailable; retrying the unit of events");
/// The wait between attempts while the database is unavailable.
const OUTAGE_WAIT: Duration = Duration::from_millis(250);
/// The number of events that is assumed for a message whose metadata cannot be parsed.
const ASSUMED_EVENTS: usize = 100;
/// `error` of an event that failed because of an internal error.
const INTERNAL_ERROR: &str = "internal_error";

/// Limits the log lines about failed units, failed events and failed dry runs.
static LOG_LIMITS: LogLimit<3> = LogLimit::new();

/// Applies batches of events, several messages as one unit.
#[derive(Clone, Debug)]
pub(crate) struct EventsHandler {
    pipeline: Pipeline,
    shutdown: CancellationToken,
}

/// Another transaction holds a lock that the events need, or the program shut down while the database was unavailable.
struct PutOff;

impl EventsHandler {
    /// Creates a handler that stops waiting for the database once `shutdown` is canceled.
    pub(crate) const fn new(pipeline: Pipeline, shutdown: CancellationToken) -> Self {
        Self { pipeline, shutdown }
    }

    /// Applies the events as one unit, or those of each tenant by themselves, and returns the result of each event, in their order
    /// (D7); `None` for events that are put off.
    async fn apply_all(&self, events: &[UnitEvent<'_>]) -> Vec<Option<EventResult>> {
        let mut of_tenants: BTreeMap<TenantId, Vec<usize>> = BTreeMap::new();
        for (index, event) in events.iter().enumerate() {
            of_tenants.entry(event.meta.caller.tenant_id).or_default().push(index);
        }
        // Messages that were put off are in the unit whatever its bounds.
        if (events.len() <= UNIT_EVENTS || of_tenants.len() < 2)
            && let Ok(results) = self.apply(events).await
        {
            return results.into_iter().map(Some).collect();
        }
        let mut results = vec![None; events.len()];
        if of_tenants.len() < 2 {
            return results;
        }
        for indexes in of_tenants.values() {
            for indexes in indexes.chunks(UNIT_EVENTS) {
                let own: Vec<UnitEvent<'_>> = indexes.iter().map(|index| events[*index]).collect();
                let Ok(applied) = self.apply(&own).await else { break };
                indexes.iter().zip(applied).for_each(|(index, result)| results[*index] = Some(result));
            }
        }
        results
    }

    /// Applies the events as one unit and returns the result of each.
    async fn apply(&self, events: &[UnitEvent<'_>]) -> Result<Vec<EventResult>, PutOff> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let results = match self.apply_when_available(events, false).await? {
            Ok(results) => results,
            // In halves, its later events would be decided without the effects of the earlier ones.
            Err(error) if events.iter().any(|event| event.meta.dry_run) => {
                limited!(LOG_LIMITS[2], error, %error, events = events.len(), "dry run failed; reporting its events as failed in the reply");
                events.iter().map(|event| failed(event.envelope)).collect()
            }
            Err(error) => {
                limited!(LOG_LIMITS[0], warn, %error, events = events.len(), "unit of events failed; applying it again, in halves if it has several events");
                self.apply_in_halves(events).await?
            }
        };
        tracing::debug!(requests = requests(events), events = events.len(), "unit of events applied");
        Ok(results)
    }

    /// Applies the events of a unit that failed, in their order. Where one of *n* events fails, that is about 2 log2 *n*
    /// transactions; where all fail, 2 *n*.
    async fn apply_in_halves(&self, events: &[UnitEvent<'_>]) -> Result<Vec<EventResult>, PutOff> {
        let mut results = Vec::with_capacity(events.len());
        // A stack of what remains to be applied, the next one on top. Each is a half of something that failed.
        let mut remaining = halves(events);
        remaining.reverse();
        while let Some(half) = remaining.pop() {
            if let [event] = half {
                let span = batch_span(event.request_context);
                results.push(self.apply_single(*event).instrument(span).await?);
                continue;
            }
            match self.apply_when_available(half, false).await? {
                Ok(applied) => results.extend(applied),
                Err(error) => {
                    tracing::debug!(%error, events = half.len(), "half of a unit of events failed; applying it in halves");
                    remaining.extend(halves(half).into_iter().rev());
                }
            }
        }
        Ok(results)
    }

    async fn apply_single(&self, event: UnitEvent<'_>) -> Result<EventResult, PutOff> {
        let mut attempted = self.apply_when_available(&[event], false).await?;
        if attempted.is_err() && event.envelope.event_type == InboundType::DiscoveryUpserted {
            // The event is applied even when its discovery part cannot be stored (specification: traveller.discovery_upserted).
            attempted = self.apply_when_available(&[event], true).await?;
        }
        Ok(match attempted.map(|mut results| results.pop()) {
            Ok(Some(result)) => result,
            Ok(None) => failed(event.envelope),
            Err(error) => {
                limited!(LOG_LIMITS[1], error, %error, ordinal = event.ordinal, "event failed; reporting it as failed in the reply");
                failed(event.envelope)
            }
        })
    }

    /// Applies events as one unit; waits for the database without a time limit. A returned error is permanent, or a conflict after
    /// all retries.
    async fn apply_when_available(
        &self, events: &[UnitEvent<'_>], skip_discovery: bool,
    ) -> Result<Result<Vec<EventResult>, TxError>, PutOff> {
        let apply = || self.pipeline.apply_events(events, skip_discovery);
        let applied = OUTAGE.wait_out(OUTAGE_WAIT, &self.shutdown, TxError::is_unavailable, apply);
        match applied.await {
            None | Some(Err(TxError::Locked(_))) => Err(PutOff),
            Some(applied) => Ok(applied),
        }
    }
}

impl UnitHandler for EventsHandler {
    const DEAD_LETTER_REASONS: &'static [&'static str] = UNREADABLE_REASONS;

    fn weigh(&self, message: &Message) -> usize {
        // A dry run is a unit of its own.
        let weight = |meta: BatchMeta| if meta.dry_run { UNIT_EVENTS } else { usize::from(meta.events) };
        parse_meta(message).map_or(ASSUMED_EVENTS, weight)
    }

    async fn handle(&mut self, unit: &[&Message]) -> Vec<MessageOutcome> {
        let started = Instant::now();
        let messages: Vec<Result<EventsMessage<'_>, UnreadableMessage>> =
            unit.iter().map(|message| EventsMessage::parse(message)).collect();
        let requests: Vec<RequestContext> = messages.iter().flatten().map(|message| message.request_context).collect();
        let events: Vec<UnitEvent<'_>> = messages.iter().flatten().flat_map(EventsMessage::events).collect();
        let apply = async {
            let mut results = Vec::with_capacity(events.len());
            // Messages that were put off may be beside a dry run.
            for unit in events.chunk_by(may_share_transaction) {
                results.extend(self.apply_all(unit).await);
            }
            results
        };
        let results = apply.instrument(unit_span_of(&requests)).await;
        observe(&events, &results, started);
        let mut results = results.into_iter();
        messages.into_iter().map(|message| message_outcome(message, &mut results)).collect()
    }
}

/// Whether neighboring events may be applied in one transaction: those of a dry run only with each other, because it is rolled back.
fn may_share_transaction(one: &UnitEvent<'_>, next: &UnitEvent<'_>) -> bool {
    let is_same_request = one.request_context.request_id == next.request_context.request_id;
    is_same_request || !(one.meta.dry_run || next.meta.dry_run)
}

/// Splits a unit into two halves, as near to the middle as possible: between two requests if there are several. A single event is
/// returned whole: it is applied a second time by itself, which may succeed after a conflict, and may leave its discovery out.
fn halves<'u, 'e>(events: &'u [UnitEvent<'e>]) -> Vec<&'u [UnitEvent<'e>]> {
    if events.len() < 2 {
        return vec![events];
    }
    let middle = events.len() / 2;
    let is_between = |at: &usize| events[at - 1].request_context.request_id != events[*at].request_context.request_id;
    let between = (1..events.len()).filter(is_between).min_by_key(|at| at.abs_diff(middle));
    let (first, second) = events.split_at(between.unwrap_or(middle));
    vec![first, second]
}

/// The number of requests that sent these events.
fn requests(events: &[UnitEvent<'_>]) -> usize {
    events.iter().map(|event| event.request_context.request_id).collect::<BTreeSet<_>>().len()
}

/// The outcome of a request. `results` begins with the result of its first event.
fn message_outcome(
    message: Result<EventsMessage<'_>, UnreadableMessage>, results: &mut impl Iterator<Item = Option<EventResult>>,
) -> MessageOutcome {
    let mut message = match message {
        Ok(message) => message,
        Err(UnreadableMessage { reason, request_context }) => {
            return MessageOutcome::DeadLetter { reason, reply: None, request_context };
        }
    };
    let own: Vec<Option<EventResult>> = results.take(message.envelopes.len()).collect();
    if own.iter().any(|result| result.as_ref().is_none_or(is_internal_error)) {
        message.trace_span.fail();
    }
    let Some(results) = own.into_iter().collect::<Option<Vec<_>>>() else {
        return MessageOutcome::PutOff;
    };
    // What has failed is decided again, perhaps otherwise.
    let is_repeatable = results.iter().all(|result| result.status != EventStatus::Failed);
    activity::note_handled(Queue::Events, message.meta.published_at);
    let reply = serde_json::to_vec(&BatchResult::new(results)).expect("results have string keys");
    MessageOutcome::Done { reply, is_repeatable, request_context: Some(message.request_context) }
}

/// The log span of a unit: it names its request, or all of its requests.
fn unit_span_of(requests: &[RequestContext]) -> Span {
    match requests {
        [request] => batch_span(*request),
        requests => unit_span(requests),
    }
}

/// The log span of one request's events.
fn batch_span(RequestContext { request_id, context: TraceContext { trace_id, .. } }: RequestContext) -> Span {
    tracing::error_span!("batch", %request_id, %trace_id)
}

fn failed(envelope: &Envelope<'_>) -> EventResult {
    EventResult::failed(&envelope.event_id, INTERNAL_ERROR)
}

/// Whether an event failed because of an internal error.
fn is_internal_error(result: &EventResult) -> bool {
    result.error.as_deref() == Some(INTERNAL_ERROR)
}

fn observe(events: &[UnitEvent<'_>], results: &[Option<EventResult>], started: Instant) {
    metrics::histogram!(APPLY_DURATION, "queue" => Queue::Events.as_str()).record(started.elapsed());
    let mut counts: BTreeMap<TenantId, (u64, u64)> = BTreeMap::new();
    for (event, result) in events.iter().zip(results) {
        let (Some(result), false) = (result, event.meta.dry_run) else { continue };
        let (event_type, status) = (event.envelope.event_type.as_str(), result.status.as_str());
        metrics::counter!(EVENTS, "event_type" => event_type, "status" => status).increment(1);
        let tenant = event.meta.caller.tenant_id;
        let (applied, failed) = counts.entry(tenant).or_default();
        *applied += u64::from(result.status == EventStatus::Accepted);
        *failed += u64::from(result.status == EventStatus::Failed);
        if let Some(error) = &result.error {
            let sent_by = format!("{}, request {}", event.meta.caller.key, event.request_context.request_id);
            activity::count_failure(tenant, Cause::Event(error.clone()), Some(sent_by));
        }
    }
    for (tenant, (applied, failed)) in counts {
        activity::count_events(tenant, applied, failed);
    }
}
