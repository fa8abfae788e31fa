//! The events queue: several waiting messages are applied as one unit. A unit that fails is applied in halves, and a half that
//! fails again in halves, so that one bad event fails alone (D8) and costs the others few transactions.

use super::batch::{Batch, Part, Poison, REASONS, read_meta};
use super::unit_span;
use crate::pipeline::events::UnitEvent;
use crate::pipeline::{Pipeline, wait_for_database};
use common::broker::{Handler, Message, Queue, Verdict};
use common::clock;
use common::db::TxError;
use common::event::{Envelope, EventResult, InboundType};
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{APPLY_DURATION, EVENTS, QUEUE_LAG};
use common::trace::{TraceContext, Trail};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

/// Wait between tries while the database can't be reached.
const OUTAGE_WAIT: Duration = Duration::from_millis(250);
/// What a message counts whose number of events isn't known.
const UNKNOWN_WEIGHT: usize = 100;
/// `error` of an event that failed by a fault of ours.
const INTERNAL_ERROR: &str = "internal_error";

/// Which failures are logged: of units, of single events, of the database.
static LINES: LogLimit<3> = LogLimit::new();

/// Handles batches of events.
#[derive(Clone, Debug)]
pub(crate) struct EventsHandler {
    pipeline: Pipeline,
    shutdown: CancellationToken,
}

/// Told to end while the database can't be reached: the messages go back to the queue.
struct Interrupted;

impl EventsHandler {
    /// A handler that gives up waiting for the database at `shutdown`.
    pub(crate) const fn new(pipeline: Pipeline, shutdown: CancellationToken) -> Self {
        Self { pipeline, shutdown }
    }

    /// Applies what could be read and gives the results of all events, in their order.
    async fn apply(
        &self,
        events: &[UnitEvent<'_>],
        requests: usize,
    ) -> Result<Vec<EventResult>, Interrupted> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let results = match self.when_available(events, false).await? {
            Ok(results) => results,
            Err(error) => {
                limited!(LINES[0], warn, %error, events = events.len(), "unit failed; applying it in halves");
                self.apply_in_halves(events).await?
            }
        };
        tracing::debug!(batches = requests, events = events.len(), "applied");
        Ok(results)
    }

    /// Applies the events of a unit that failed, in their order. Where one of *n* events fails, that is about 2 log2 *n*
    /// transactions; where all fail, 2 *n*.
    async fn apply_in_halves(&self, events: &[UnitEvent<'_>]) -> Result<Vec<EventResult>, Interrupted> {
        let mut results = Vec::with_capacity(events.len());
        // What is to be applied, the first events last. Each part that is here has failed as a part of a larger one.
        let mut parts = halves(events);
        while let Some(part) = parts.pop() {
            if let [event] = part {
                let span = batch_span(event.trail);
                results.push(self.apply_single(*event).instrument(span).await?);
                continue;
            }
            match self.when_available(part, false).await? {
                Ok(applied) => results.extend(applied),
                Err(error) => {
                    tracing::debug!(%error, events = part.len(), "part of a unit failed; applying it in halves");
                    parts.extend(halves(part));
                }
            }
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
                limited!(LINES[1], error, %error, ordinal = event.ordinal, "event failed");
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
            match self.pipeline.apply_events(events, skip_discovery).await {
                Err(TxError::Unavailable(error)) => {
                    limited!(LINES[2], warn, error, "database unavailable; trying the unit of events again");
                }
                done => return Ok(done),
            }
            wait_for_database(OUTAGE_WAIT, &self.shutdown).await.ok_or(Interrupted)?;
        }
    }
}

impl Handler for EventsHandler {
    const DEATHS: &'static [&'static str] = REASONS;

    fn weigh(&self, message: &Message) -> usize {
        read_meta(message).map_or(UNKNOWN_WEIGHT, |meta| usize::from(meta.events))
    }

    async fn handle(&mut self, unit: &[Message]) -> Vec<Verdict> {
        let started = Instant::now();
        let mut read: Vec<Result<Batch<'_>, Poison>> = unit.iter().map(Batch::read).collect();
        let parts: Vec<&Part<'_>> = read.iter().flatten().flat_map(|batch| &batch.parts).collect();
        let events: Vec<UnitEvent<'_>> = read.iter().flatten().flat_map(Batch::events).collect();
        let applied = self.apply(&events, parts.len()).instrument(span_of(&parts)).await;
        let Ok(results) = applied else {
            read.iter_mut().flatten().flat_map(|batch| &mut batch.parts).for_each(|part| part.traced.fail());
            return vec![Verdict::Leave; unit.len()];
        };
        observe(&read, &events, &results, started);
        let mut results = results.into_iter();
        read.into_iter().map(|batch| verdict(batch, &mut results)).collect()
    }
}

/// Two parts of a unit, the second one first: divided between two requests where there are several, and as near to the
/// middle as that allows. A single event is not divided.
fn halves<'u, 'e>(events: &'u [UnitEvent<'e>]) -> Vec<&'u [UnitEvent<'e>]> {
    if events.len() < 2 {
        return vec![events];
    }
    let middle = events.len() / 2;
    let is_between = |at: &usize| events[at - 1].trail.request_id != events[*at].trail.request_id;
    let between = (1..events.len()).filter(is_between).min_by_key(|at| at.abs_diff(middle));
    let (first, second) = events.split_at(between.unwrap_or(middle));
    vec![second, first]
}

/// What is to become of a message, given the results from its first event on.
fn verdict(batch: Result<Batch<'_>, Poison>, results: &mut impl Iterator<Item = EventResult>) -> Verdict {
    let mut batch = match batch {
        Ok(batch) => batch,
        Err(Poison { reason, trail }) => return Verdict::Dead { reason, reply: None, trail },
    };
    let mut of_parts = Vec::with_capacity(batch.parts.len());
    for part in &mut batch.parts {
        let own: Vec<EventResult> = results.take(part.envelopes.len()).collect();
        if own.iter().any(is_failed_inside) {
            part.traced.fail();
        }
        of_parts.push(own);
    }
    let (reply, trail) = (batch.reply(of_parts), batch.trail());
    match batch.take_unreadable() {
        unreadable if unreadable.is_empty() => Verdict::Done { reply, trail },
        unreadable => Verdict::Partly { reply, unreadable },
    }
}

/// What the log lines of a unit name: the request that it belongs to, or all of them.
fn span_of(parts: &[&Part<'_>]) -> Span {
    match parts {
        [part] => batch_span(part.trail),
        parts => unit_span(&parts.iter().map(|part| part.trail).collect::<Vec<_>>()),
    }
}

/// What the log lines of a request's events name.
fn batch_span(Trail { request_id, context: TraceContext { trace_id, .. } }: Trail) -> Span {
    tracing::error_span!("batch", %request_id, %trace_id)
}

fn failed(envelope: &Envelope<'_>) -> EventResult {
    EventResult::failed(&envelope.event_id, INTERNAL_ERROR)
}

/// Whether an event failed by a fault of ours.
fn is_failed_inside(result: &EventResult) -> bool {
    result.error.as_deref() == Some(INTERNAL_ERROR)
}

fn observe(
    read: &[Result<Batch<'_>, Poison>],
    events: &[UnitEvent<'_>],
    results: &[EventResult],
    started: Instant,
) {
    let queue = Queue::Events.as_str();
    metrics::histogram!(APPLY_DURATION, "queue" => queue).record(started.elapsed());
    let now = clock::now();
    for batch in read.iter().flatten() {
        let lag = (now - batch.meta.published_at).to_std().unwrap_or_default();
        // Of each request, as all that is counted of batches.
        metrics::histogram!(QUEUE_LAG, "queue" => queue).record_many(lag, batch.parts.len());
    }
    for (event, result) in events.iter().zip(results) {
        let (event_type, status) = (event.envelope.event_type.as_str(), result.status.as_str());
        metrics::counter!(EVENTS, "event_type" => event_type, "status" => status).increment(1);
    }
}
