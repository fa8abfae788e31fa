//! The queue of advisor actions: one action, one transaction, one answer (operator's contract: Advisor actions).

use super::parent;
use crate::pipeline::advisor::{Acted, ReceivedAction};
use crate::pipeline::{Pipeline, wait_for_database};
use common::advisor::AdvisorAction;
use common::broker::{Handler, Message, Queue, Verdict};
use common::clock;
use common::db::TxError;
use common::limited;
use common::log_limit::LogLimit;
use common::message::ActionMeta;
use common::metrics::{ACTIONS, APPLY_DURATION, QUEUE_LAG};
use common::trace::{SpanKind, TraceContext, TraceSpan, Trail};
use common::write::WriteRefusal;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use uuid::Uuid;

/// Wait between tries while the database can't be reached.
const OUTAGE_WAIT: Duration = Duration::from_millis(250);

/// Which actions are logged that failed, that were refused, and that wait for the database.
static LINES: LogLimit<3> = LogLimit::new();

/// Handles advisor actions.
#[derive(Clone, Debug)]
pub(crate) struct CrmHandler {
    pipeline: Pipeline,
    shutdown: CancellationToken,
}

/// How an action ended.
enum Ended {
    Acted(Acted),
    /// Well formed, but not allowed: no poison, and nothing to be tried again.
    Refused(WriteRefusal),
    /// Not an action.
    Malformed(WriteRefusal),
    /// A fault of ours.
    Failed,
    /// Told to end while the database can't be reached.
    Interrupted,
}

impl CrmHandler {
    /// A handler that gives up waiting for the database at `shutdown`.
    pub(crate) const fn new(pipeline: Pipeline, shutdown: CancellationToken) -> Self {
        Self { pipeline, shutdown }
    }

    async fn handle_one(&self, message: &Message) -> Verdict {
        let started = Instant::now();
        let meta = message.meta.as_deref().and_then(|meta| serde_json::from_str::<ActionMeta>(meta).ok());
        let sent = meta.as_ref().and_then(|meta| meta.traceparent.as_deref());
        let parent = parent(sent.or(message.traceparent.as_deref()));
        let mut traced = TraceSpan::begin(parent, "action", SpanKind::Consumer);
        let read = read(message);
        let trail = Trail { request_id: request_id(message, &read), context: traced.context() };
        let Trail { request_id, context: TraceContext { trace_id, .. } } = trail;
        traced.set("connect.request_id", || request_id.to_string());
        let span = tracing::error_span!("action", %request_id, %trace_id);
        let acting = async {
            let (label, ended) = match read {
                Ok((action, id)) => (action.action.name().as_str(), self.act(&action, &id, trail).await),
                Err(refusal) => ("unknown", Ended::Malformed(refusal)),
            };
            tracing::debug!(action = label, "action ended");
            observe(meta.as_ref(), label, &ended, started);
            if matches!(ended, Ended::Failed | Ended::Interrupted) {
                traced.fail();
            }
            conclude(message, label, &ended, trail)
        };
        acting.instrument(span).await
    }

    /// Does an action, waiting for the database as long as it takes.
    async fn act(&self, action: &AdvisorAction, message_id: &str, trail: Trail) -> Ended {
        let received = ReceivedAction { action, message_id, trail };
        loop {
            match self.pipeline.act(received).await {
                Ok(Ok(acted)) => return Ended::Acted(acted),
                Ok(Err(WriteRefusal::InternalError)) => return Ended::Failed,
                Ok(Err(refusal)) => return Ended::Refused(refusal),
                Err(TxError::Unavailable(error)) => {
                    limited!(LINES[2], warn, error, "database unavailable; trying the advisor action again");
                }
                Err(error) => {
                    limited!(LINES[0], error, %error, message_id, "action failed");
                    return Ended::Failed;
                }
            }
            if wait_for_database(OUTAGE_WAIT, &self.shutdown).await.is_none() {
                return Ended::Interrupted;
            }
        }
    }
}

impl Handler for CrmHandler {
    const DEATHS: &'static [&'static str] = &["body", "internal"];

    fn weigh(&self, _message: &Message) -> usize {
        1
    }

    async fn handle(&mut self, unit: &[Message]) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(unit.len());
        for message in unit {
            verdicts.push(self.handle_one(message).await);
        }
        verdicts
    }
}

/// The action, and the id that makes it be done once. Without an id of the sender's only this very delivery is known.
fn read(message: &Message) -> Result<(AdvisorAction, String), WriteRefusal> {
    let message_id = match &message.message_id {
        Some(id) if id.chars().any(char::is_control) => {
            let faults = "message_id: must not have control characters".to_owned();
            return Err(WriteRefusal::InvalidRequest { faults });
        }
        Some(id) => id.clone(),
        None => Uuid::now_v7().to_string(),
    };
    Ok((AdvisorAction::parse(&message.body)?, message_id))
}

/// What the log and the ledger call an action: its message, where that has such an id.
fn request_id(message: &Message, read: &Result<(AdvisorAction, String), WriteRefusal>) -> Uuid {
    let known_by = match read {
        Ok((_, message_id)) => Some(message_id.as_str()),
        Err(_) => message.message_id.as_deref(),
    };
    known_by.and_then(|id| Uuid::try_parse(id).ok()).unwrap_or_else(Uuid::now_v7)
}

/// Who asked for an answer gets one, whatever it is. Where nobody did, only what can't be put right otherwise is kept as
/// a dead letter.
fn conclude(message: &Message, label: &'static str, ended: &Ended, trail: Trail) -> Verdict {
    let trail = Some(trail);
    let answered = |refusal: &WriteRefusal| Verdict::Done { reply: json(&refusal.body()), trail };
    match ended {
        Ended::Acted(acted) => Verdict::Done { reply: json(&acted.done), trail },
        Ended::Refused(refusal) => {
            let code = refusal.body()["code"].clone();
            limited!(LINES[1], warn, action = label, %code, message_id = message.message_id, "action refused");
            answered(refusal)
        }
        Ended::Malformed(refusal) if message.wants_reply => answered(refusal),
        Ended::Malformed(_) => Verdict::Dead { reason: "body", reply: None, trail },
        Ended::Failed if message.wants_reply => answered(&WriteRefusal::InternalError),
        Ended::Failed => Verdict::Dead { reason: "internal", reply: None, trail },
        Ended::Interrupted => Verdict::Leave,
    }
}

fn json(answer: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(answer).expect("answers have string keys")
}

fn observe(meta: Option<&ActionMeta>, label: &'static str, ended: &Ended, started: Instant) {
    let status = match ended {
        Ended::Acted(Acted { repeated: false, .. }) => "done",
        Ended::Acted(Acted { repeated: true, .. }) => "repeated",
        Ended::Refused(_) => "refused",
        Ended::Malformed(_) => "malformed",
        Ended::Failed => "failed",
        Ended::Interrupted => return,
    };
    metrics::counter!(ACTIONS, "action" => label, "status" => status).increment(1);
    let queue = Queue::Crm.as_str();
    metrics::histogram!(APPLY_DURATION, "queue" => queue).record(started.elapsed());
    if let Some(meta) = meta {
        let lag = (clock::now() - meta.published_at).to_std().unwrap_or_default();
        metrics::histogram!(QUEUE_LAG, "queue" => queue).record(lag);
    }
}
