//! The records queue: writes that wait together are done in one transaction; each has its own answer. A unit that fails is
//! done write by write, so that a bad write fails alone.

use super::{parent, unit_span};
use crate::pipeline::Pipeline;
use crate::pipeline::records::{ReceivedWrite, WriteResult, is_quota_or_deadline_refusal};
use crate::rules::records::Write;
use common::broker::{Handler, Message, Queue, Verdict};
use common::clock;
use common::db::TxError;
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{APPLY_DURATION, QUEUE_LAG};
use common::record::parse;
use common::trace::{SpanKind, TraceContext, TraceSpan, Trail};
use common::write::{WriteAnswer, WriteMeta, WriteRefusal, WriteTarget};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{Instrument, Span};

/// Wait between tries while the database can't be reached; the write's deadline ends them.
const OUTAGE_WAIT: Duration = Duration::from_millis(100);

/// Which failures are logged: of units, of single writes, of writes with an itinerary, of the database.
static LINES: LogLimit<4> = LogLimit::new();

/// Handles records writes.
#[derive(Clone, Debug)]
pub(crate) struct RecordsHandler {
    pipeline: Pipeline,
}

/// A message that could be read.
struct Received<'m> {
    meta: WriteMeta,
    traced: TraceSpan,
    context: TraceContext,
    body: &'m [u8],
    /// What it writes, unless its body is not valid.
    write: Result<Write, WriteRefusal>,
}

impl<'m> Received<'m> {
    fn read(message: &'m Message) -> Option<Self> {
        let meta = serde_json::from_str::<WriteMeta>(message.meta.as_deref()?).ok()?;
        let parent = parent(meta.traceparent.as_deref());
        let mut traced = TraceSpan::begin(parent, "write", SpanKind::Consumer);
        traced.set("connect.request_id", || meta.request_id.to_string());
        let context = traced.context();
        let write = read(meta.target, &message.body);
        Some(Self { meta, traced, context, body: &message.body, write })
    }

    /// What is to be written; `None` where the body is not valid.
    fn to_write(&self) -> Option<ReceivedWrite<'_>> {
        let write = self.write.as_ref().ok()?;
        Some(ReceivedWrite { meta: &self.meta, context: self.context, body: self.body, write })
    }

    /// The reply: the refusal of an invalid body, else the next of `results`.
    fn answer(&self, results: &mut impl Iterator<Item = WriteResult>) -> WriteAnswer {
        let ended = match &self.write {
            Ok(_) => results.next().unwrap_or(Err(WriteRefusal::InternalError)),
            Err(refusal) => Err(refusal.clone()),
        };
        span(&self.meta, self.context)
            .in_scope(|| tracing::debug!(is_written = ended.is_ok(), "write answered"));
        match ended {
            Ok(written) => WriteAnswer::Written(written),
            Err(refusal) => WriteAnswer::Refused(refusal),
        }
    }

    /// What is to become of the message.
    fn verdict(mut self, results: &mut impl Iterator<Item = WriteResult>) -> Verdict {
        let answer = self.answer(results);
        if is_failed_inside(&answer) {
            self.traced.fail();
        }
        let lag = (clock::now() - self.meta.published_at).to_std().unwrap_or_default();
        metrics::histogram!(QUEUE_LAG, "queue" => Queue::Records.as_str()).record(lag);
        let reply = serde_json::to_vec(&answer).expect("answers have string keys");
        let trail = Some(Trail { request_id: self.meta.request_id, context: self.context });
        Verdict::Done { reply, trail }
    }
}

impl RecordsHandler {
    /// A handler.
    pub(crate) const fn new(pipeline: Pipeline) -> Self {
        Self { pipeline }
    }

    /// Does `writes` in their order, and gives the result of each. What has expired is not begun.
    async fn write_all(&self, writes: &[ReceivedWrite<'_>]) -> Vec<WriteResult> {
        let now = clock::now();
        let has_expired = |write: &&ReceivedWrite<'_>| now >= write.meta.deadline;
        let due: Vec<_> = writes.iter().filter(|write| !has_expired(write)).copied().collect();
        let mut results = self.write_due(&due).await.into_iter();
        let of_due = |write| if has_expired(&write) { None } else { results.next() };
        writes
            .iter()
            .map(of_due)
            .map(|result| result.unwrap_or(Err(WriteRefusal::ProcessingTimeout)))
            .collect()
    }

    /// Does writes, unit by unit.
    async fn write_due(&self, writes: &[ReceivedWrite<'_>]) -> Vec<WriteResult> {
        let mut results = Vec::with_capacity(writes.len());
        let mut rest = writes;
        while !rest.is_empty() {
            let (unit, left) = rest.split_at(without_repeated_keys(rest));
            results.extend(self.write_unit(unit).await);
            rest = left;
        }
        results
    }

    /// Does writes in one transaction, or one by one where that fails.
    async fn write_unit(&self, writes: &[ReceivedWrite<'_>]) -> Vec<WriteResult> {
        if writes.len() > 1 {
            let trails: Vec<Trail> = writes.iter().map(trail).collect();
            let unit = self.pipeline.write_records(writes, false).instrument(unit_span(&trails));
            match unit.await {
                Ok(results) => return results,
                // Done one by one, each write learns whether it is refused.
                Err(error) if is_quota_or_deadline_refusal(&error) => {}
                Err(error) => unit_span(&trails).in_scope(|| {
                    let writes = writes.len();
                    limited!(LINES[0], warn, %error, writes, "unit failed; doing its writes one by one");
                }),
            }
        }
        let mut results = Vec::with_capacity(writes.len());
        for write in writes {
            results.push(self.write(*write).instrument(span(write.meta, write.context)).await);
        }
        results
    }

    /// Does a write, waiting for the database until the deadline. What its caller was told 503 about isn't begun any more.
    async fn write(&self, received: ReceivedWrite<'_>) -> WriteResult {
        let ReceivedWrite { meta, write, .. } = received;
        let mut skip_itinerary = false;
        while clock::now() < meta.deadline {
            let error = match self.pipeline.write_records(&[received], skip_itinerary).await {
                Ok(mut results) => return results.pop().unwrap_or(Err(WriteRefusal::InternalError)),
                Err(error) => error,
            };
            let is_lasting = !matches!(error, TxError::Unavailable(_));
            if is_lasting && (skip_itinerary || !has_itinerary(write)) {
                limited!(LINES[1], error, %error, "records write failed");
                return Err(fault(write));
            }
            // The rest of the change is kept even when the itinerary can't be stored (D21b).
            skip_itinerary = is_lasting;
            if skip_itinerary {
                limited!(LINES[2], warn, %error, "records write failed; retrying in 100 ms without its itinerary");
            } else {
                limited!(LINES[3], warn, %error, "records write failed; retrying in 100 ms");
            }
            tokio::time::sleep(OUTAGE_WAIT).await;
        }
        Err(WriteRefusal::ProcessingTimeout)
    }
}

/// How many of the first writes have an `Idempotency-Key` that none before has, or none: a retry is answered from what the
/// transaction before it has kept.
fn without_repeated_keys(writes: &[ReceivedWrite<'_>]) -> usize {
    let mut keys = HashSet::new();
    let is_new = |write: &&ReceivedWrite<'_>| write.idempotency_key().is_none_or(|key| keys.insert(key));
    writes.iter().take_while(is_new).count()
}

const fn trail(write: &ReceivedWrite<'_>) -> Trail {
    Trail { request_id: write.meta.request_id, context: write.context }
}

/// What the log lines of a write name.
fn span(meta: &WriteMeta, context: TraceContext) -> Span {
    tracing::error_span!("write", request_id = %meta.request_id, trace_id = %context.trace_id)
}

fn has_itinerary(write: &Write) -> bool {
    matches!(write, Write::Trip(_, patch) if patch.itinerary.is_sent())
}

const fn fault(write: &Write) -> WriteRefusal {
    match write {
        Write::NewLead(_) => WriteRefusal::LeadCreateFailed,
        Write::NewClient(_) | Write::Client(..) | Write::Lead(..) | Write::Trip(..) => {
            WriteRefusal::InternalError
        }
    }
}

/// Whether a write failed, and not by its caller's fault.
fn is_failed_inside(answer: &WriteAnswer) -> bool {
    matches!(answer, WriteAnswer::Refused(refusal) if refusal.answer().0 >= 500)
}

/// Ingest has read the body the same way before.
fn read(target: WriteTarget, body: &[u8]) -> Result<Write, WriteRefusal> {
    Ok(match target {
        WriteTarget::NewClient => Write::NewClient(parse(body)?),
        WriteTarget::Client(id) => Write::Client(id, parse(body)?),
        WriteTarget::NewLead => Write::NewLead(Box::new(parse(body)?)),
        WriteTarget::Lead(id) => Write::Lead(id, parse(body)?),
        WriteTarget::Trip(id) => Write::Trip(id, Box::new(parse(body)?)),
    })
}

impl Handler for RecordsHandler {
    const DEATHS: &'static [&'static str] = &["metadata"];

    fn weigh(&self, _message: &Message) -> usize {
        1
    }

    async fn handle(&mut self, unit: &[Message]) -> Vec<Verdict> {
        let started = Instant::now();
        let received: Vec<Option<Received<'_>>> = unit.iter().map(Received::read).collect();
        let writes: Vec<ReceivedWrite<'_>> =
            received.iter().flatten().filter_map(Received::to_write).collect();
        let mut results = self.write_all(&writes).await.into_iter();
        metrics::histogram!(APPLY_DURATION, "queue" => Queue::Records.as_str()).record(started.elapsed());
        let verdict = |received: Option<Received<'_>>| match received {
            Some(received) => received.verdict(&mut results),
            None => Verdict::Dead { reason: "metadata", reply: None, trail: None },
        };
        received.into_iter().map(verdict).collect()
    }
}
