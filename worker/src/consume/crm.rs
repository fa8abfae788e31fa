//! The crm queue (operator's contract: Advisor actions). Actions are taken into the database in the order of the queue, and applied
//! from there by turns of their tenants, see [`super::actions`].

use super::trace_parent;
use crate::pipeline::Pipeline;
use crate::pipeline::advisor::AppliedAction;
use crate::store;
use chrono::{DateTime, Utc};
use common::advisor::AdvisorAction;
use common::broker::{Message, MessageOutcome, Queue, UnitHandler};
use common::db::{Database, TxError};
use common::log_limit::LogLimit;
use common::message::ActionMeta;
use common::metrics::{ACTIONS, APPLY_DURATION};
use common::model::TenantId;
use common::outage::Outage;
use common::trace::{RequestContext, SpanKind, TraceContext, TraceSpan};
use common::write::WriteRefusal;
use common::{activity, limited};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Span;
use uuid::Uuid;

pub(super) static OUTAGE: Outage =
    Outage::new("apply advisor actions", "Postgres is unavailable; retrying the advisor action");
/// The wait between attempts while the database is unavailable.
pub(super) const OUTAGE_WAIT: Duration = Duration::from_millis(250);

/// Maximum number of actions that wait in the database. Further ones stay in the queue.
pub(super) const WAITING_MAX: u32 = 1_000_000;
/// The same of one tenant. Further ones of it are dead-lettered, so that they do not delay other tenants in the queue.
const TENANT_WAITING_MAX: u32 = 100_000;
/// Limits the log lines about refused actions, and about too many that wait.
static LOG_LIMITS: LogLimit<2> = LogLimit::new();

/// What the intake and the lane of a worker share.
#[derive(Debug, Default)]
pub(crate) struct WaitingActions {
    /// About how many wait of each tenant, whoever has taken them.
    counts: Mutex<HashMap<TenantId, u32>>,
    pub(super) added: Notify,
}

impl WaitingActions {
    pub(super) fn counts(&self) -> MutexGuard<'_, HashMap<TenantId, u32>> {
        self.counts.lock()
    }

    fn is_full(&self, tenant: TenantId) -> bool {
        self.counts().get(&tenant).is_some_and(|waiting| *waiting >= TENANT_WAITING_MAX)
    }
}

/// Takes actions from the queue into the database.
#[derive(Debug)]
pub(crate) struct ActionIntake {
    pub(crate) pipeline: Pipeline,
    pub(crate) database: Database,
    pub(crate) waiting: Arc<WaitingActions>,
    pub(crate) shutdown: CancellationToken,
}

/// The result of handling one message.
pub(super) enum ActionOutcome {
    Applied(AppliedAction),
    /// A well-formed action that is not allowed. It is neither dead-lettered nor retried.
    Refused(WriteRefusal),
    /// The message cannot be parsed as an action.
    Malformed(WriteRefusal),
    /// An internal error, which the worker has logged.
    Failed,
    /// Workers were killed with it too often.
    Exhausted,
    /// Too many of its tenant wait.
    Overloaded,
    /// Another transaction holds a lock that the action needs, or the program shut down while the database was unavailable.
    PutOff,
}

/// An action, and the id by which the ledger detects duplicates.
pub(super) type ParsedAction = Result<(AdvisorAction, String), WriteRefusal>;

impl UnitHandler for ActionIntake {
    const DEAD_LETTER_REASONS: &'static [&'static str] = &["attempts", "backlog", "body", "internal"];

    fn weigh(&self, _message: &Message) -> usize {
        1
    }

    async fn handle(&mut self, unit: &[&Message]) -> Vec<MessageOutcome> {
        let (mut outcomes, mut actions) = (Vec::with_capacity(unit.len()), Vec::with_capacity(unit.len()));
        for &message in unit {
            let outcome = match self.tenant_of(message).await {
                Ok(tenant) => {
                    actions.push((tenant, message));
                    MessageOutcome::Stored
                }
                Err(outcome) => outcome,
            };
            outcomes.push(outcome);
        }
        // All of them or none, so that their order is kept.
        if outcomes.contains(&MessageOutcome::PutOff) || !self.store(&actions).await {
            let stored = outcomes.iter_mut().filter(|outcome| **outcome == MessageOutcome::Stored);
            stored.for_each(|outcome| *outcome = MessageOutcome::PutOff);
        }
        outcomes
    }
}

impl ActionIntake {
    /// The tenant of an action. Messages that are none, and those for an unknown tenant, are handled at once.
    async fn tenant_of(&self, message: &Message) -> Result<TenantId, MessageOutcome> {
        let parsed = parse_action(message);
        let (label, outcome) = match &parsed {
            Ok((action, _)) => {
                let find = || self.pipeline.find_tenant(&self.database, &action.tenant);
                let outcome = match until_done(&self.shutdown, find).await {
                    Some(Some(tenant)) if self.waiting.is_full(tenant) => ActionOutcome::Overloaded,
                    Some(Some(tenant)) => return Ok(tenant),
                    Some(None) => ActionOutcome::Refused(WriteRefusal::NotFound),
                    None => ActionOutcome::PutOff,
                };
                (action.action.name().as_str(), outcome)
            }
            Err(refusal) => ("unknown", ActionOutcome::Malformed(refusal.clone())),
        };
        Err(Handling::begin(message, &parsed).end(message, label, &outcome, None))
    }

    /// Stores actions. `false` if too many wait, or the program shuts down.
    async fn store(&self, actions: &[(TenantId, &Message)]) -> bool {
        if actions.is_empty() {
            return true;
        }
        if self.waiting.counts().values().sum::<u32>() >= WAITING_MAX {
            limited!(
                LOG_LIMITS[0],
                warn,
                "too many advisor actions wait in the database; leaving further ones in their queue"
            );
            return false;
        }
        let add = || store::add_actions(&self.database, actions);
        let is_stored = until_done(&self.shutdown, add).await.is_some();
        if is_stored {
            let mut counts = self.waiting.counts();
            actions.iter().for_each(|(tenant, _)| *counts.entry(*tenant).or_default() += 1);
            self.waiting.added.notify_one();
        }
        is_stored
    }
}

/// Repeats a statement until it succeeds. `None` once the program shuts down.
pub(super) async fn until_done<T, R: Future<Output = Result<T, TxError>>>(
    shutdown: &CancellationToken, statement: impl FnMut() -> R,
) -> Option<T> {
    OUTAGE.wait_out(OUTAGE_WAIT, shutdown, |_| true, statement).await?.ok()
}

/// What is logged, traced and counted of a message while it is handled.
pub(super) struct Handling {
    started: Instant,
    meta: Option<ActionMeta>,
    pub(super) request_context: RequestContext,
    trace_span: TraceSpan,
    pub(super) span: Span,
}

impl Handling {
    pub(super) fn begin(message: &Message, parsed: &ParsedAction) -> Self {
        let started = Instant::now();
        let meta = message.meta.as_deref().and_then(|meta| serde_json::from_str::<ActionMeta>(meta).ok());
        let sent = meta.as_ref().and_then(|meta| meta.traceparent.as_deref());
        let parent = trace_parent(sent.or(message.traceparent.as_deref()));
        let request_id = request_id(message, parsed);
        let mut trace_span = TraceSpan::begin_named_like(request_id, parent, "action", SpanKind::Consumer);
        let request_context = RequestContext { request_id, context: trace_span.context() };
        let TraceContext { trace_id, .. } = request_context.context;
        trace_span.set("connect.request_id", || request_id.to_string());
        let span = tracing::error_span!("action", %request_id, %trace_id);
        Self { started, meta, request_context, trace_span, span }
    }

    /// What is to be done with the message. `received_at` is known of a stored one.
    pub(super) fn end(
        self, message: &Message, label: &'static str, outcome: &ActionOutcome, received_at: Option<DateTime<Utc>>,
    ) -> MessageOutcome {
        let Self { started, meta, request_context, mut trace_span, span } = self;
        span.in_scope(|| {
            if !matches!(outcome, ActionOutcome::PutOff) {
                tracing::debug!(action = label, "advisor action finished");
            }
            observe(meta.map(|meta| meta.published_at).or(received_at), label, outcome, started);
            if matches!(outcome, ActionOutcome::Failed | ActionOutcome::Exhausted | ActionOutcome::PutOff) {
                trace_span.fail();
            }
            message_outcome(message, label, outcome, request_context)
        })
    }
}

/// Parses the action, and returns it with the id by which the ledger detects duplicates. If the sender gave no message
/// id, a new one is made, and a repeated message is not detected.
pub(super) fn parse_action(message: &Message) -> ParsedAction {
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
fn request_id(message: &Message, parsed: &ParsedAction) -> Uuid {
    let known_by = match parsed {
        Ok((_, message_id)) => Some(message_id.as_str()),
        Err(_) => message.message_id.as_deref(),
    };
    known_by.and_then(|id| Uuid::try_parse(id).ok()).unwrap_or_else(Uuid::now_v7)
}

/// The outcome of a message. A sender that wants a reply always gets one. Without a wanted reply, malformed messages and
/// internal errors are dead-lettered.
fn message_outcome(
    message: &Message, label: &'static str, outcome: &ActionOutcome, request_context: RequestContext,
) -> MessageOutcome {
    let request_context = Some(request_context);
    let done = |reply| MessageOutcome::Done { reply, is_repeatable: false, request_context };
    let reply_refusal = |refusal: &WriteRefusal| done(json(&refusal.body()));
    match outcome {
        ActionOutcome::Applied(acted) => done(json(&acted.reply)),
        ActionOutcome::Refused(refusal) => {
            let code = refusal.body()["code"].clone();
            limited!(LOG_LIMITS[1], warn, action = label, %code, message_id = message.message_id, "advisor action refused; replying with the reason if a reply is wanted");
            reply_refusal(refusal)
        }
        ActionOutcome::Malformed(refusal) if message.wants_reply => reply_refusal(refusal),
        ActionOutcome::Malformed(_) => MessageOutcome::DeadLetter { reason: "body", reply: None, request_context },
        ActionOutcome::Failed if message.wants_reply => reply_refusal(&WriteRefusal::InternalError),
        ActionOutcome::Failed => MessageOutcome::DeadLetter { reason: "internal", reply: None, request_context },
        ActionOutcome::Exhausted => {
            let reply = Some(json(&WriteRefusal::InternalError.body()));
            MessageOutcome::DeadLetter { reason: "attempts", reply, request_context }
        }
        ActionOutcome::Overloaded => {
            let reply = Some(json(&WriteRefusal::Overloaded.body()));
            MessageOutcome::DeadLetter { reason: "backlog", reply, request_context }
        }
        ActionOutcome::PutOff => MessageOutcome::PutOff,
    }
}

fn json(reply: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(reply).expect("replies have string keys")
}

fn observe(published_at: Option<DateTime<Utc>>, label: &'static str, outcome: &ActionOutcome, started: Instant) {
    let status = match outcome {
        ActionOutcome::Applied(AppliedAction { repeated: false, .. }) => "done",
        ActionOutcome::Applied(AppliedAction { repeated: true, .. }) => "repeated",
        ActionOutcome::Refused(_) | ActionOutcome::Overloaded => "refused",
        ActionOutcome::Malformed(_) => "malformed",
        ActionOutcome::Failed | ActionOutcome::Exhausted => "failed",
        ActionOutcome::PutOff => return,
    };
    metrics::counter!(ACTIONS, "action" => label, "status" => status).increment(1);
    let queue = Queue::Crm.as_str();
    metrics::histogram!(APPLY_DURATION, "queue" => queue).record(started.elapsed());
    if let Some(published_at) = published_at {
        activity::record_lag(Queue::Crm, published_at);
    }
}
