//! The events queue: several waiting batches are applied as one unit; a unit that fails is applied event by event,
//! so that one bad event fails alone (D8).

use super::parent;
use crate::unit::{self, Databases, UnitEvent};
use common::broker::{Handler, Message, Queue, Verdict};
use common::clock;
use common::db::TxError;
use common::event::{BatchResult, Envelope, EventResult, InboundType, parse_batch};
use common::message::BatchMeta;
use common::metrics::{APPLY_DURATION, EVENTS, QUEUE_LAG};
use common::trace::{SpanKind, TraceContext, TraceId, TraceSpan, Trail};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use uuid::Uuid;

/// Wait between tries while the database can't be reached.
const OUTAGE_WAIT: Duration = Duration::from_millis(250);
/// What a message counts whose number of events isn't known.
const UNKNOWN_WEIGHT: usize = 100;
/// `error` of an event that failed by a fault of ours.
const INTERNAL_ERROR: &str = "internal_error";

/// Handles batches of events.
#[derive(Clone, Debug)]
pub struct EventsHandler {
    databases: Databases,
    shutdown: CancellationToken,
}

/// A message that could be read.
struct Batch<'m> {
    meta: BatchMeta,
    traced: TraceSpan,
    envelopes: Vec<Envelope<'m>>,
}

/// Why a message can't be read, and what it is due to, as far as that is known.
struct Poison {
    reason: &'static str,
    trail: Option<Trail>,
}

/// Told to end while the database can't be reached: the messages go back to the queue.
struct Interrupted;

impl EventsHandler {
    /// A handler that gives up waiting for the database at `shutdown`.
    pub const fn new(databases: Databases, shutdown: CancellationToken) -> Self {
        Self { databases, shutdown }
    }

    /// Applies what could be read and gives the results of each batch.
    async fn apply(&self, batches: &[&Batch<'_>]) -> Result<Vec<BatchResult>, Interrupted> {
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        let events: Vec<UnitEvent<'_>> = batches.iter().copied().flat_map(Batch::events).collect();
        let results = match self.when_available(&events, false).await? {
            Ok(results) => results,
            Err(error) => {
                tracing::warn!(%error, events = events.len(), "unit failed; applying its events one by one");
                self.apply_singly(&events).await?
            }
        };
        tracing::debug!(batches = batches.len(), events = events.len(), "applied");
        let mut results = results.into_iter();
        let of_batch =
            |batch: &&Batch<'_>| BatchResult::new(results.by_ref().take(batch.envelopes.len()).collect());
        Ok(batches.iter().map(of_batch).collect())
    }

    /// One transaction an event, in their order.
    async fn apply_singly(&self, events: &[UnitEvent<'_>]) -> Result<Vec<EventResult>, Interrupted> {
        let mut results = Vec::with_capacity(events.len());
        for event in events {
            let span = batch_span(event.trail.request_id, event.trail.context);
            results.push(self.apply_single(*event).instrument(span).await?);
        }
        Ok(results)
    }

    async fn apply_single(&self, event: UnitEvent<'_>) -> Result<EventResult, Interrupted> {
        let mut tried = self.when_available(&[event], false).await?;
        if tried.is_err() && event.envelope.event_type == InboundType::DiscoveryUpserted {
            // The event is recorded even when its discovery part can't be (specification: traveller.discovery_upserted).
            tried = self.when_available(&[event], true).await?;
        }
        Ok(match tried.map(|mut results| results.pop()) {
            Ok(Some(result)) => result,
            Ok(None) => failed(event.envelope),
            Err(error) => {
                tracing::error!(%error, ordinal = event.ordinal, "event failed");
                failed(event.envelope)
            }
        })
    }

    /// Applies a unit, waiting for the database as long as it takes. What it returns won't change by trying again.
    async fn when_available(
        &self,
        events: &[UnitEvent<'_>],
        skip_discovery: bool,
    ) -> Result<Result<Vec<EventResult>, TxError>, Interrupted> {
        loop {
            match unit::apply(&self.databases, events, skip_discovery).await {
                Err(TxError::Unavailable(error)) => {
                    tracing::warn!(error, "database unavailable; the unit waits");
                }
                done => return Ok(done),
            }
            let waited = self.shutdown.run_until_cancelled(tokio::time::sleep(OUTAGE_WAIT)).await;
            waited.ok_or(Interrupted)?;
        }
    }
}

impl Handler for EventsHandler {
    const DEATHS: &'static [&'static str] = &["metadata", "body"];

    fn weigh(&self, message: &Message) -> usize {
        read_meta(message).map_or(UNKNOWN_WEIGHT, |meta| usize::from(meta.events))
    }

    async fn handle(&mut self, unit: &[Message]) -> Vec<Verdict> {
        let started = Instant::now();
        let mut read: Vec<Result<Batch<'_>, Poison>> = unit.iter().map(Batch::read).collect();
        let batches: Vec<&Batch<'_>> = read.iter().filter_map(|batch| batch.as_ref().ok()).collect();
        let applied = self.apply(&batches).instrument(unit_span(&batches)).await;
        let Ok(results) = applied else {
            read.iter_mut().flatten().for_each(|batch| batch.traced.fail());
            return vec![Verdict::Leave; unit.len()];
        };
        observe(&batches, &results, started);
        let mut results = results.iter();
        let verdict = |batch: &mut Result<Batch<'_>, Poison>| match batch {
            Ok(batch) => {
                let result = results.next();
                if result.is_some_and(is_failed_inside) {
                    batch.traced.fail();
                }
                Verdict::Done { reply: result.map(reply).unwrap_or_default(), trail: Some(batch.trail()) }
            }
            Err(Poison { reason, trail }) => Verdict::Dead { reason, reply: None, trail: *trail },
        };
        read.iter_mut().map(verdict).collect()
    }
}

impl<'m> Batch<'m> {
    fn read(message: &'m Message) -> Result<Self, Poison> {
        let meta = read_meta(message).ok_or(Poison { reason: "metadata", trail: None })?;
        let mut traced = TraceSpan::begin(parent(meta.traceparent.as_deref()), "batch", SpanKind::Consumer);
        traced.set("connect.request_id", || meta.request_id.to_string());
        traced.set("connect.events", || i64::from(meta.events));
        match parse_batch(&message.body, &meta.caller.tenant) {
            Ok(envelopes) => Ok(Self { meta, traced, envelopes }),
            Err(_) => {
                traced.fail();
                let trail = Trail { request_id: meta.request_id, context: traced.context() };
                Err(Poison { reason: "body", trail: Some(trail) })
            }
        }
    }

    const fn trail(&self) -> Trail {
        Trail { request_id: self.meta.request_id, context: self.traced.context() }
    }

    fn trace_id(&self) -> TraceId {
        self.traced.context().trace_id
    }

    fn events(&self) -> impl Iterator<Item = UnitEvent<'_>> {
        let ordinals = 0_i16..;
        self.envelopes.iter().zip(ordinals).map(|(envelope, ordinal)| UnitEvent {
            meta: &self.meta,
            envelope,
            ordinal,
            trail: self.trail(),
        })
    }
}

/// What the log lines of a unit name: the request that it belongs to, or all of them. A unit has few messages.
fn unit_span(batches: &[&Batch<'_>]) -> Span {
    if let [batch] = batches {
        return batch_span(batch.meta.request_id, batch.traced.context());
    }
    let request_ids = Listed(batches, |batch: &Batch<'_>| batch.meta.request_id);
    let trace_ids = Listed(batches, Batch::trace_id);
    tracing::error_span!("unit", %request_ids, %trace_ids)
}

/// What the log lines of a batch name.
fn batch_span(request_id: Uuid, TraceContext { trace_id, .. }: TraceContext) -> Span {
    tracing::error_span!("batch", %request_id, %trace_id)
}

/// Something of each batch, with spaces between.
struct Listed<'b, 'm, F>(&'b [&'b Batch<'m>], F);

impl<'m, T: Display, F: Fn(&Batch<'m>) -> T> Display for Listed<'_, 'm, F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, batch) in self.0.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{}", (self.1)(batch))?;
        }
        Ok(())
    }
}

fn read_meta(message: &Message) -> Option<BatchMeta> {
    serde_json::from_str(message.meta.as_deref()?).ok()
}

fn reply(result: &BatchResult) -> Vec<u8> {
    serde_json::to_vec(result).expect("results have string keys")
}

fn failed(envelope: &Envelope<'_>) -> EventResult {
    EventResult::failed(&envelope.event_id, INTERNAL_ERROR)
}

/// Whether any event of a batch failed by a fault of ours.
fn is_failed_inside(result: &BatchResult) -> bool {
    result.results.iter().any(|event| event.error.as_deref() == Some(INTERNAL_ERROR))
}

fn observe(batches: &[&Batch<'_>], results: &[BatchResult], started: Instant) {
    let queue = Queue::Events.as_str();
    metrics::histogram!(APPLY_DURATION, "queue" => queue).record(started.elapsed());
    let now = clock::now();
    for (batch, result) in batches.iter().zip(results) {
        let lag = (now - batch.meta.published_at).to_std().unwrap_or_default();
        metrics::histogram!(QUEUE_LAG, "queue" => queue).record(lag);
        for (envelope, result) in batch.envelopes.iter().zip(&result.results) {
            let (event_type, status) = (envelope.event_type.as_str(), result.status.as_str());
            metrics::counter!(EVENTS, "event_type" => event_type, "status" => status).increment(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::caller::Caller;
    use common::model::{KeyPrefix, Scopes, TenantId};

    fn batch(id: u128) -> Batch<'static> {
        let caller = Caller {
            tenant_id: TenantId(Uuid::nil()),
            tenant: "acme".to_owned(),
            key: KeyPrefix::parse("ck_test").unwrap(),
            scopes: Scopes::parse(&["events:ingest"]).unwrap(),
            origin: None,
        };
        let (request_id, published_at) = (Uuid::from_u128(id), clock::now());
        let meta = BatchMeta { request_id, caller, published_at, events: 1, traceparent: None };
        Batch { meta, traced: TraceSpan::begin(None, "batch", SpanKind::Consumer), envelopes: Vec::new() }
    }

    #[test]
    fn the_lines_of_a_unit_name_every_request_in_it() {
        let (one, two) = (batch(1), batch(2));
        let batches = [&one, &two];
        let requests = Listed(&batches, |batch: &Batch<'_>| batch.meta.request_id).to_string();
        assert_eq!(requests, format!("{} {}", Uuid::from_u128(1), Uuid::from_u128(2)));
        let traces = Listed(&batches, Batch::trace_id).to_string();
        assert_eq!(traces, format!("{} {}", one.trace_id(), two.trace_id()));
    }
}
