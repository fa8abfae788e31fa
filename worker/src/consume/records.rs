//! The records queue: one write, one transaction, one answer.

use super::parent;
use crate::pipeline::Pipeline;
use crate::pipeline::records::ReceivedWrite;
use crate::rules::records::Write;
use common::broker::{Handler, Message, Queue, Verdict};
use common::clock;
use common::db::TxError;
use common::metrics::{APPLY_DURATION, QUEUE_LAG};
use common::record::parse;
use common::trace::{SpanKind, TraceContext, TraceSpan, Trail};
use common::write::{WriteAnswer, WriteMeta, WriteRefusal, WriteTarget, Written};
use std::time::Duration;
use tokio::time::Instant;
use tracing::Instrument;

/// Wait between tries while the database can't be reached; the write's deadline ends them.
const OUTAGE_WAIT: Duration = Duration::from_millis(100);

/// Handles records writes.
#[derive(Clone, Debug)]
pub(crate) struct RecordsHandler {
    pipeline: Pipeline,
}

impl RecordsHandler {
    /// A handler.
    pub(crate) const fn new(pipeline: Pipeline) -> Self {
        Self { pipeline }
    }

    async fn answer(&self, meta: &WriteMeta, context: TraceContext, body: &[u8]) -> WriteAnswer {
        let done = match read(meta.target, body) {
            Ok(write) => self.write(meta, context, body, &write).await,
            Err(refusal) => Err(refusal),
        };
        tracing::debug!(is_written = done.is_ok(), "write answered");
        match done {
            Ok(written) => WriteAnswer::Written(written),
            Err(refusal) => WriteAnswer::Refused(refusal),
        }
    }

    /// Writes, waiting for the database until the deadline. What its caller was told 503 about isn't begun any more.
    async fn write(
        &self,
        meta: &WriteMeta,
        context: TraceContext,
        body: &[u8],
        write: &Write,
    ) -> Result<Written, WriteRefusal> {
        let received = ReceivedWrite { meta, context, body, write };
        let mut skip_itinerary = false;
        while clock::now() < meta.deadline {
            let error = match self.pipeline.write_record(received, skip_itinerary).await {
                Ok(done) => return done,
                Err(error) => error,
            };
            let is_lasting = !matches!(error, TxError::Unavailable(_));
            if is_lasting && (skip_itinerary || !has_itinerary(write)) {
                tracing::error!(%error, "records write failed");
                return Err(fault(write));
            }
            tracing::warn!(%error, "records write failed; trying it again");
            // The rest of the change is kept even when the itinerary can't be stored (D21b).
            skip_itinerary = is_lasting;
            tokio::time::sleep(OUTAGE_WAIT).await;
        }
        Err(WriteRefusal::ProcessingTimeout)
    }
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
        let mut verdicts = Vec::with_capacity(unit.len());
        for message in unit {
            let meta = message.meta.as_deref().and_then(|meta| serde_json::from_str::<WriteMeta>(meta).ok());
            let Some(meta) = meta else {
                verdicts.push(Verdict::Dead { reason: "metadata", reply: None, trail: None });
                continue;
            };
            let started = Instant::now();
            let parent = parent(meta.traceparent.as_deref());
            let mut traced = TraceSpan::begin(parent, "write", SpanKind::Consumer);
            traced.set("connect.request_id", || meta.request_id.to_string());
            let context = traced.context();
            let span =
                tracing::error_span!("write", request_id = %meta.request_id, trace_id = %context.trace_id);
            let answer = self.answer(&meta, context, &message.body).instrument(span).await;
            if is_failed_inside(&answer) {
                traced.fail();
            }
            drop(traced);
            let queue = Queue::Records.as_str();
            metrics::histogram!(APPLY_DURATION, "queue" => queue).record(started.elapsed());
            let lag = (clock::now() - meta.published_at).to_std().unwrap_or_default();
            metrics::histogram!(QUEUE_LAG, "queue" => queue).record(lag);
            let reply = serde_json::to_vec(&answer).expect("answers have string keys");
            let trail = Some(Trail { request_id: meta.request_id, context });
            verdicts.push(Verdict::Done { reply, trail });
        }
        verdicts
    }
}
