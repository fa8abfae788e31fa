//! The crm queue: one advisor action, one transaction, one reply (operator's contract: Advisor actions).

use super::trace_parent;
use crate::pipeline::Pipeline;
use crate::pipeline::advisor::{AppliedAction, ReceivedAction};
use common::activity;
use common::advisor::AdvisorAction;
use common::broker::{Message, MessageOutcome, Queue, UnitHandler};
use common::db::TxError;
use common::limited;
use common::log_limit::LogLimit;
use common::message::ActionMeta;
use common::metrics::{ACTIONS, APPLY_DURATION};
use common::outage::Outage;
use common::retry::RetryWaits;
use common::trace::{RequestContext, SpanKind, TraceContext, TraceSpan};
use common::write::WriteRefusal;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use uuid::Uuid;

/// Waits between attempts while the database is unavailable.
pub(super) static OUTAGE: Outage =
    Outage::new("apply advisor actions", "Postgres is unavailable; retrying the advisor action");
const OUTAGE_WAITS: RetryWaits = RetryWaits::every(Duration::from_millis(250));

/// Limits the log lines about failed actions, refused actions and an unavailable database.
static LOG_LIMITS: LogLimit<2> = LogLimit::new();

/// Applies advisor actions, one at a time.
#[derive(Clone, Debug)]
pub(crate) struct CrmHandler {
    pipeline: Pipeline,
    shutdown: CancellationToken,
}

/// The result of handling one message.
enum ActionOutcome {
    Applied(AppliedAction),
    /// A well-formed action that is not allowed. It is neither dead-lettered nor retried.
    Refused(WriteRefusal),
    /// The message cannot be parsed as an action.
    Malformed(WriteRefusal),
    /// An internal error, which the worker has logged.
    Failed,
    /// Another transaction holds a lock that the action needs, or the program shut down while the database was unavailable.
    PutOff,
}

impl CrmHandler {
    /// Creates a handler that stops waiting for the database once `shutdown` is canceled.
    pub(crate) const fn new(pipeline: Pipeline, shutdown: CancellationToken) -> Self {
        Self { pipeline, shutdown }
    }

    /// `locked` are the tenants whose actions are put off.
    async fn handle_one(&self, message: &Message, locked: &mut HashSet<String>) -> MessageOutcome {
        let started = Instant::now();
        let meta = message.meta.as_deref().and_then(|meta| serde_json::from_str::<ActionMeta>(meta).ok());
        let sent = meta.as_ref().and_then(|meta| meta.traceparent.as_deref());
        let parent = trace_parent(sent.or(message.traceparent.as_deref()));
        let parsed = parse_action(message);
        let request_id = request_id(message, &parsed);
        let mut trace_span = TraceSpan::begin_named_like(request_id, parent, "action", SpanKind::Consumer);
        let request_context = RequestContext { request_id, context: trace_span.context() };
        let RequestContext { request_id, context: TraceContext { trace_id, .. } } = request_context;
        trace_span.set("connect.request_id", || request_id.to_string());
        let span = tracing::error_span!("action", %request_id, %trace_id);
        let applying = async {
            let (label, outcome) = match parsed {
                Ok((action, id)) => {
                    let outcome = match locked.contains(&action.tenant) {
                        true => ActionOutcome::PutOff,
                        false => self.apply(&action, &id, request_context).await,
                    };
                    if matches!(outcome, ActionOutcome::PutOff) {
                        locked.insert(action.tenant.clone());
                    }
                    (action.action.name().as_str(), outcome)
                }
                Err(refusal) => ("unknown", ActionOutcome::Malformed(refusal)),
            };
            if !matches!(outcome, ActionOutcome::PutOff) {
                tracing::debug!(action = label, "advisor action finished");
            }
            observe(meta.as_ref(), label, &outcome, started);
            if matches!(outcome, ActionOutcome::Failed | ActionOutcome::PutOff) {
                trace_span.fail();
            }
            message_outcome(message, label, &outcome, request_context)
        };
        applying.instrument(span).await
    }

    /// Applies an action; waits for the database without a time limit.
    async fn apply(
        &self,
        action: &AdvisorAction,
        message_id: &str,
        request_context: RequestContext,
    ) -> ActionOutcome {
        let received = ReceivedAction { action, message_id, request_context };
        let apply = || self.pipeline.apply_action(received);
        let applied = OUTAGE.wait_out(OUTAGE_WAITS, &self.shutdown, TxError::is_unavailable, apply);
        match applied.await {
            None | Some(Err(TxError::Locked(_))) => ActionOutcome::PutOff,
            Some(Ok(Ok(acted))) => ActionOutcome::Applied(acted),
            Some(Ok(Err(WriteRefusal::InternalError))) => ActionOutcome::Failed,
            Some(Ok(Err(refusal))) => ActionOutcome::Refused(refusal),
            Some(Err(error)) => {
                limited!(LOG_LIMITS[0], error, %error, message_id, "advisor action failed; replying with an error, or dead-lettering it if no reply is wanted");
                ActionOutcome::Failed
            }
        }
    }
}

impl UnitHandler for CrmHandler {
    const DEAD_LETTER_REASONS: &'static [&'static str] = &["body", "internal"];

    fn weigh(&self, _message: &Message) -> usize {
        1
    }

    async fn handle(&mut self, unit: &[Message]) -> Vec<MessageOutcome> {
        let (mut outcomes, mut locked) = (Vec::with_capacity(unit.len()), HashSet::new());
        for message in unit {
            outcomes.push(self.handle_one(message, &mut locked).await);
        }
        outcomes
    }
}

/// Parses the action, and returns it with the id by which the ledger detects duplicates. If the sender gave no message
/// id, a new one is made, and a repeated message is not detected.
fn parse_action(message: &Message) -> Result<(AdvisorAction, String), WriteRefusal> {
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

/// The request id of an action in the log and in the ledger: its message id if that is a UUID, else a new one.
fn request_id(message: &Message, parsed: &Result<(AdvisorAction, String), WriteRefusal>) -> Uuid {
    let known_by = match parsed {
        Ok((_, message_id)) => Some(message_id.as_str()),
        Err(_) => message.message_id.as_deref(),
    };
    known_by.and_then(|id| Uuid::try_parse(id).ok()).unwrap_or_else(Uuid::now_v7)
}

/// The outcome of a message. A sender that wants a reply always gets one. Without a wanted reply, malformed messages and
/// internal errors are dead-lettered.
fn message_outcome(
    message: &Message,
    label: &'static str,
    outcome: &ActionOutcome,
    request_context: RequestContext,
) -> MessageOutcome {
    let request_context = Some(request_context);
    let reply_refusal =
        |refusal: &WriteRefusal| MessageOutcome::Done { reply: json(&refusal.body()), request_context };
    match outcome {
        ActionOutcome::Applied(acted) => MessageOutcome::Done { reply: json(&acted.reply), request_context },
        ActionOutcome::Refused(refusal) => {
            let code = refusal.body()["code"].clone();
            limited!(LOG_LIMITS[1], warn, action = label, %code, message_id = message.message_id, "advisor action refused; replying with the reason if a reply is wanted");
            reply_refusal(refusal)
        }
        ActionOutcome::Malformed(refusal) if message.wants_reply => reply_refusal(refusal),
        ActionOutcome::Malformed(_) => {
            MessageOutcome::DeadLetter { reason: "body", reply: None, request_context }
        }
        ActionOutcome::Failed if message.wants_reply => reply_refusal(&WriteRefusal::InternalError),
        ActionOutcome::Failed => {
            MessageOutcome::DeadLetter { reason: "internal", reply: None, request_context }
        }
        ActionOutcome::PutOff => MessageOutcome::PutOff,
    }
}

fn json(reply: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(reply).expect("replies have string keys")
}

fn observe(meta: Option<&ActionMeta>, label: &'static str, outcome: &ActionOutcome, started: Instant) {
    let status = match outcome {
        ActionOutcome::Applied(AppliedAction { repeated: false, .. }) => "done",
        ActionOutcome::Applied(AppliedAction { repeated: true, .. }) => "repeated",
        ActionOutcome::Refused(_) => "refused",
        ActionOutcome::Malformed(_) => "malformed",
        ActionOutcome::Failed => "failed",
        ActionOutcome::PutOff => return,
    };
    metrics::counter!(ACTIONS, "action" => label, "status" => status).increment(1);
    let queue = Queue::Crm.as_str();
    metrics::histogram!(APPLY_DURATION, "queue" => queue).record(started.elapsed());
    if let Some(meta) = meta {
        activity::note_handled(Queue::Crm, meta.published_at, 1);
    }
}
