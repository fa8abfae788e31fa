//! The records queue: writes that wait together are applied in one transaction; each has its own reply. A unit that fails
//! is applied write by write, so that a bad write fails alone.

use super::{trace_parent, unit_span};
use crate::pipeline::Pipeline;
use crate::pipeline::records::{ReceivedWrite, WriteResult, is_quota_or_deadline_error};
use crate::rules::records::Write;
use crate::service::UNIT_WRITES;
use common::broker::{Message, MessageOutcome, Queue, UnitHandler};
use common::db::TxError;
use common::log_limit::LogLimit;
use common::metrics::APPLY_DURATION;
use common::model::TenantId;
use common::outage::Outage;
use common::record::parse;
use common::trace::{RequestContext, SpanKind, TraceContext, TraceSpan};
use common::write::{WriteMeta, WriteRefusal, WriteReply, WriteTarget};
use common::{activity, clock, health, limited};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tracing::{Instrument, Span};

pub(super) static OUTAGE: Outage =
    Outage::new("apply records writes", "Postgres is unavailable; retrying the records write");
/// The wait between attempts while the database is unavailable; the write's deadline ends the attempts.
const OUTAGE_WAIT: Duration = Duration::from_millis(100);

/// Limits the log lines about failed units, failed writes, failed itineraries and an unavailable database.
static LOG_LIMITS: LogLimit<3> = LogLimit::new();

/// Applies records writes, several messages as one unit.
#[derive(Clone, Debug)]
pub(crate) struct RecordsHandler {
    pipeline: Pipeline,
}

/// A message of the records queue whose metadata could be parsed.
struct WriteMessage<'m> {
    meta: WriteMeta,
    trace_span: TraceSpan,
    context: TraceContext,
    body: &'m [u8],
    /// The parsed body, or why it is invalid.
    write: Result<Write, WriteRefusal>,
}

impl<'m> WriteMessage<'m> {
    fn parse(message: &'m Message) -> Option<Self> {
        let meta = serde_json::from_str::<WriteMeta>(message.meta.as_deref()?).ok()?;
        let parent = trace_parent(meta.traceparent.as_deref());
        let mut trace_span = TraceSpan::begin(parent, "write", SpanKind::Consumer);
        trace_span.set("connect.request_id", || meta.request_id.to_string());
        let context = trace_span.context();
        let write = parse_write(meta.target, &message.body);
        Some(Self { meta, trace_span, context, body: &message.body, write })
    }

    /// The write; `None` if the body is invalid.
    fn valid_write(&self) -> Option<ReceivedWrite<'_>> {
        let write = self.write.as_ref().ok()?;
        Some(ReceivedWrite { meta: &self.meta, context: self.context, body: self.body, write })
    }

    /// The reply: the refusal of an invalid body, else the next of `results`; `None` if that was put off.
    fn reply(&self, results: &mut impl Iterator<Item = Option<WriteResult>>) -> Option<WriteReply> {
        let result = match &self.write {
            Ok(_) => results.next().flatten()?,
            Err(refusal) => Err(refusal.clone()),
        };
        write_span(&self.meta, self.context)
            .in_scope(|| tracing::debug!(is_written = result.is_ok(), "records write finished; replying"));
        Some(match result {
            Ok(written) => WriteReply::Written(written),
            Err(refusal) => WriteReply::Refused(refusal),
        })
    }

    fn message_outcome(mut self, results: &mut impl Iterator<Item = Option<WriteResult>>) -> MessageOutcome {
        let Some(reply) = self.reply(results) else {
            self.trace_span.fail();
            return MessageOutcome::PutOff;
        };
        if is_server_error(&reply) {
            self.trace_span.fail();
        }
        activity::note_handled(Queue::Records, self.meta.published_at);
        // What was refused is decided again, perhaps otherwise.
        let is_repeatable = matches!(reply, WriteReply::Written(_));
        let reply = serde_json::to_vec(&reply).expect("replies have string keys");
        let request_context = Some(RequestContext { request_id: self.meta.request_id, context: self.context });
        MessageOutcome::Done { reply, is_repeatable, request_context }
    }
}

impl RecordsHandler {
    /// Creates a handler that applies writes through `pipeline`.
    pub(crate) const fn new(pipeline: Pipeline) -> Self {
        Self { pipeline }
    }

    /// Applies `writes` in their order and returns the result of each; `None` for those that are put off, because another
    /// transaction holds a lock of their tenant. A write whose deadline has passed is not started.
    async fn write_all(&self, writes: &[ReceivedWrite<'_>]) -> Vec<Option<WriteResult>> {
        let now = clock::database_now();
        let has_expired = |write: &&ReceivedWrite<'_>| now >= write.meta.deadline;
        let in_time: Vec<_> = writes.iter().filter(|write| !has_expired(write)).copied().collect();
        let mut results = self.write_in_time(&in_time).await.into_iter();
        let expired = Some(Err(WriteRefusal::ProcessingTimeout));
        let result = |write| if has_expired(&write) { expired.clone() } else { results.next().flatten() };
        writes.iter().map(result).collect()
    }

    /// Applies writes whose deadline has not passed, unit by unit.
    async fn write_in_time(&self, writes: &[ReceivedWrite<'_>]) -> Vec<Option<WriteResult>> {
        let mut results = Vec::with_capacity(writes.len());
        let (mut rest, mut locked) = (writes, HashSet::new());
        while !rest.is_empty() {
            let (unit, left) = rest.split_at(unit_length(rest));
            results.extend(self.write_unit(unit, &mut locked).await);
            rest = left;
        }
        results
    }

    /// Applies writes in one transaction, or one by one if that fails. `locked` are tenants whose writes are put off.
    async fn write_unit(
        &self, writes: &[ReceivedWrite<'_>], locked: &mut HashSet<TenantId>,
    ) -> Vec<Option<WriteResult>> {
        if writes.len() > 1 && locked.is_empty() {
            let request_contexts: Vec<RequestContext> = writes.iter().map(request_context).collect();
            let unit = self.pipeline.write_records(writes, false).instrument(unit_span(&request_contexts));
            match unit.await {
                Ok(results) => return results.into_iter().map(Some).collect(),
                Err(TxError::Locked(_)) => {}
                // The error does not say which write is refused. Applied one by one, each write gets its own result.
                Err(error) if is_quota_or_deadline_error(&error) => {}
                Err(error) => unit_span(&request_contexts).in_scope(|| {
                    let writes = writes.len();
                    limited!(LOG_LIMITS[0], warn, %error, writes, "unit of records writes failed; applying its writes one by one");
                }),
            }
        }
        let mut results = Vec::with_capacity(writes.len());
        for write in writes {
            let tenant = write.meta.caller.tenant_id;
            let result = match locked.contains(&tenant) {
                true => None,
                false => self.write(*write).instrument(write_span(write.meta, write.context)).await,
            };
            if result.is_none() {
                locked.insert(tenant);
            }
            results.push(result);
        }
        results
    }

    /// Applies a write; waits for the database until the write's deadline. After the deadline, when ingest has responded
    /// with 503, it is not started. `None` if another transaction holds a lock.
    async fn write(&self, received: ReceivedWrite<'_>) -> Option<WriteResult> {
        let ReceivedWrite { meta, write, .. } = received;
        let mut skip_itinerary = false;
        while clock::database_now() < meta.deadline {
            health::beat();
            let error = match self.pipeline.write_records(&[received], skip_itinerary).await {
                Ok(mut results) => {
                    OUTAGE.report_success();
                    return Some(results.pop().unwrap_or(Err(WriteRefusal::InternalError)));
                }
                Err(TxError::Locked(_)) => return None,
                Err(error) => error,
            };
            let is_permanent = !matches!(error, TxError::Unavailable(_));
            let Some(skip_next) = skip_next(is_permanent, has_itinerary(write), skip_itinerary) else {
                limited!(LOG_LIMITS[1], error, %error, "records write failed; replying with an error");
                return Some(Err(failure_refusal(write)));
            };
            skip_itinerary = skip_next;
            if is_permanent {
                limited!(LOG_LIMITS[2], warn, %error, "records write failed; retrying in 100 ms without its itinerary");
            } else {
                OUTAGE.report_failure(&error);
            }
            sleep(OUTAGE_WAIT).await;
        }
        Some(Err(WriteRefusal::ProcessingTimeout))
    }
}

/// Number of writes at the start of `writes` that one transaction may apply: a single dry run, which is rolled back, or writes
/// without a repeated `Idempotency-Key`. A retry belongs in a later transaction, which replies with the response that the earlier
/// one has stored.
fn unit_length(writes: &[ReceivedWrite<'_>]) -> usize {
    let mut keys = HashSet::new();
    let mut is_new = |write: &ReceivedWrite<'_>| write.idempotency_key().is_none_or(|key| keys.insert(key));
    writes.iter().take(UNIT_WRITES.into()).take_while(|write| !write.meta.dry_run && is_new(write)).count().max(1)
}

const fn request_context(write: &ReceivedWrite<'_>) -> RequestContext {
    RequestContext { request_id: write.meta.request_id, context: write.context }
}

fn write_span(meta: &WriteMeta, context: TraceContext) -> Span {
    tracing::error_span!("write", request_id = %meta.request_id, trace_id = %context.trace_id)
}

fn has_itinerary(write: &Write) -> bool {
    matches!(write, Write::Trip(_, patch) if patch.itinerary.is_sent())
}

/// Whether the attempt after a failed one skips the itinerary; `None` if there is no further attempt. The rest of the change is
/// stored even when the itinerary cannot be (D21b). An itinerary that failed for good stays skipped after an outage.
const fn skip_next(is_permanent: bool, has_itinerary: bool, was_skipped: bool) -> Option<bool> {
    match is_permanent {
        true if was_skipped || !has_itinerary => None,
        true => Some(true),
        false => Some(was_skipped),
    }
}

const fn failure_refusal(write: &Write) -> WriteRefusal {
    match write {
        Write::NewLead(_) => WriteRefusal::LeadCreateFailed,
        Write::NewClient(_) | Write::Client(..) | Write::Lead(..) | Write::Trip(..) => WriteRefusal::InternalError,
    }
}

/// Whether the status of the reply is a 5xx.
fn is_server_error(reply: &WriteReply) -> bool {
    matches!(reply, WriteReply::Refused(refusal) if refusal.status_and_message().0 >= 500)
}

/// Parses the body as ingest did before it published the message.
fn parse_write(target: WriteTarget, body: &[u8]) -> Result<Write, WriteRefusal> {
    Ok(match target {
        WriteTarget::NewClient => Write::NewClient(parse(body)?),
        WriteTarget::Client(id) => Write::Client(id, parse(body)?),
        WriteTarget::NewLead => Write::NewLead(Box::new(parse(body)?)),
        WriteTarget::Lead(id) => Write::Lead(id, parse(body)?),
        WriteTarget::Trip(id) => Write::Trip(id, Box::new(parse(body)?)),
    })
}

impl UnitHandler for RecordsHandler {
    const DEAD_LETTER_REASONS: &'static [&'static str] = &["metadata"];

    fn weigh(&self, _message: &Message) -> usize {
        1
    }

    async fn handle(&mut self, unit: &[&Message]) -> Vec<MessageOutcome> {
        let started = Instant::now();
        let received: Vec<Option<WriteMessage<'_>>> = unit.iter().map(|message| WriteMessage::parse(message)).collect();
        let writes: Vec<ReceivedWrite<'_>> = received.iter().flatten().filter_map(WriteMessage::valid_write).collect();
        let mut results = self.write_all(&writes).await.into_iter();
        metrics::histogram!(APPLY_DURATION, "queue" => Queue::Records.as_str()).record(started.elapsed());
        let message_outcome = |received: Option<WriteMessage<'_>>| match received {
            Some(received) => received.message_outcome(&mut results),
            None => MessageOutcome::DeadLetter { reason: "metadata", reply: None, request_context: None },
        };
        received.into_iter().map(message_outcome).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::skip_next;

    #[test]
    fn an_itinerary_that_failed_for_good_stays_skipped_and_a_write_fails_when_nothing_is_left_to_skip() {
        assert_eq!(skip_next(false, true, false), Some(false), "an outage says nothing about the itinerary");
        assert_eq!(skip_next(true, true, false), Some(true));
        assert_eq!(skip_next(false, true, true), Some(true));
        assert_eq!(skip_next(true, true, true), None);
        assert_eq!(skip_next(true, false, false), None);
        assert_eq!(skip_next(false, false, false), Some(false));
    }
}
