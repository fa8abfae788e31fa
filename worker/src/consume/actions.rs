//! Applies the advisor actions that wait in the database: one action, one transaction, one reply. Tenants take turns, and the
//! actions of each are applied in the order in which they were stored. Each worker does so: the transaction of an action locks
//! its row, and removes it, so that no other worker applies it or a later one of its tenant meanwhile.

use super::crm::{ActionOutcome, Handling, OUTAGE, OUTAGE_WAIT, WAITING_MAX, WaitingActions, parse_action, until_done};
use crate::pipeline::Pipeline;
use crate::pipeline::advisor::ReceivedAction;
use crate::store::{self, StoredAction, TENANTS_OF_TURN};
use common::advisor::AdvisorAction;
use common::broker::{MessageOutcome, StoredMessages, set_stored_actions};
use common::db::{Database, TxError};
use common::log_limit::LogLimit;
use common::model::TenantId;
use common::trace::RequestContext;
use common::write::WriteRefusal;
use common::{health, limited};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use uuid::Uuid;

/// How often the actions that wait are counted.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// Longest time until a worker looks for actions that another one has taken.
const IDLE: Duration = Duration::from_secs(1);
/// How long a tenant is passed over whose action another transaction holds up. Shorter than an erasure pauses.
const PASSED_OVER: Duration = Duration::from_millis(100);
/// The same if the broker has not taken its dead letter.
const DEAD_LETTER_RETRY: Duration = Duration::from_secs(10);
/// Workers that may be killed while they apply an action, as many as deliveries of a message. Then it is dead-lettered.
const ATTEMPTS_MAX: i16 = 20;
/// Tenants whose first action in this process is known.
const BEGUN_MAX: usize = 10_000;

/// Limits the log lines about failed actions, and about failed counts.
static LOG_LIMITS: LogLimit<2> = LogLimit::new();

/// Applies the actions that wait.
#[derive(Debug)]
pub(crate) struct ActionLane {
    pub(crate) pipeline: Pipeline,
    /// The connection of the pipeline.
    pub(crate) database: Database,
    pub(crate) messages: StoredMessages,
    pub(crate) waiting: Arc<WaitingActions>,
    pub(crate) shutdown: CancellationToken,
    /// Tenants of which this process has applied an action: only the first one can have killed other processes before.
    pub(crate) begun: HashSet<TenantId>,
    /// Tenants that are passed over until a time.
    pub(crate) passed_over: HashMap<TenantId, Instant>,
}

impl ActionLane {
    /// Applies a few actions of each tenant in turn, until the program shuts down.
    pub(crate) async fn run(mut self) {
        const FIRST: TenantId = TenantId(Uuid::nil());
        let (mut after, mut counted, mut is_busy) = (FIRST, None::<Instant>, false);
        while !self.shutdown.is_cancelled() {
            health::beat();
            if counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY) {
                self.shutdown.run_until_cancelled(self.count()).await;
                counted = Some(Instant::now());
            }
            let next = || store::next_actions(&self.database, after);
            // A shutdown does not wait for a server that hangs.
            let reading = self.shutdown.run_until_cancelled(until_done(&self.shutdown, next));
            let Some(Some(actions)) = reading.await else { return };
            self.passed_over.retain(|_, until| *until > Instant::now());
            let mut tenants: Vec<TenantId> = actions.iter().map(|action| action.tenant).collect();
            tenants.dedup();
            after = tenants.get(usize::from(TENANTS_OF_TURN) - 1).copied().unwrap_or(FIRST);
            for action in &actions {
                health::beat();
                if !self.shutdown.is_cancelled() && !self.passed_over.contains_key(&action.tenant) {
                    is_busy |= self.act(action).await;
                }
            }
            if after == FIRST && !std::mem::take(&mut is_busy) {
                let pause = if self.passed_over.is_empty() { IDLE } else { PASSED_OVER };
                let added = timeout(pause, self.waiting.added.notified());
                self.shutdown.run_until_cancelled(added).await;
            }
        }
    }

    /// Counts the actions that wait, for the gauge of their queue and for the intake.
    async fn count(&self) {
        match store::count_actions(&self.database, WAITING_MAX).await {
            Ok(counts) => {
                let all: u32 = counts.values().sum();
                *self.waiting.counts() = counts;
                set_stored_actions(all);
            }
            Err(error) => {
                limited!(LOG_LIMITS[1], warn, %error, "counting the advisor actions that wait failed; the gauge keeps its last value");
            }
        }
    }

    /// Handles an action and removes it. `false` if it stays: then its tenant is passed over for a moment.
    async fn act(&mut self, stored: &StoredAction) -> bool {
        let (message, _unacknowledged) = (&stored.message, self.messages.begin());
        let parsed = parse_action(message);
        let handling = Handling::begin(message, &parsed);
        let (label, outcome) = match &parsed {
            Ok((action, message_id)) => {
                let applying = self.apply(stored, action, message_id, handling.request_context);
                (action.action.name().as_str(), applying.instrument(handling.span.clone()).await)
            }
            Err(refusal) => ("unknown", ActionOutcome::Malformed(refusal.clone())),
        };
        let is_removed = matches!(outcome, ActionOutcome::Applied(_) | ActionOutcome::Refused(_));
        let settling = handling.end(message, label, &outcome, Some(stored.received_at));
        let is_dead = matches!(settling, MessageOutcome::DeadLetter { .. });
        let drop_action = || store::drop_action(&self.database, stored.tenant, stored.number);
        // Of a failed one, whoever removes it replies: another worker may have applied it. A dead letter is published first.
        let is_gone = if is_removed || is_dead {
            self.messages.settle(message, &settling).await
                && (is_removed || until_done(&self.shutdown, drop_action).await.is_some())
        } else if settling == MessageOutcome::PutOff {
            false
        } else {
            match until_done(&self.shutdown, drop_action).await {
                Some(true) => self.messages.settle(message, &settling).await,
                Some(false) => true,
                None => false,
            }
        };
        if !is_gone {
            let pause = if is_dead { DEAD_LETTER_RETRY } else { PASSED_OVER };
            self.passed_over.insert(stored.tenant, Instant::now() + pause);
        }
        is_gone
    }

    /// Applies an action; waits for the database without a time limit.
    async fn apply(
        &mut self, stored: &StoredAction, action: &AdvisorAction, message_id: &str, request_context: RequestContext,
    ) -> ActionOutcome {
        let (tenant, number) = (stored.tenant, stored.number);
        if stored.attempts >= ATTEMPTS_MAX {
            return ActionOutcome::Exhausted;
        }
        if self.begun.len() >= BEGUN_MAX {
            self.begun.clear();
        }
        let begin = || store::count_attempt(&self.database, tenant, number, 1);
        let is_first = self.begun.insert(tenant);
        let counted = if is_first { until_done(&self.shutdown, begin).await } else { Some(false) };
        let Some(is_counted) = counted else { return ActionOutcome::PutOff };
        let received = ReceivedAction { tenant, number, action, message_id, request_context };
        let apply = || self.pipeline.apply_action(received);
        let applied = OUTAGE.wait_out(OUTAGE_WAIT, &self.shutdown, TxError::is_unavailable, apply);
        match applied.await {
            None | Some(Ok(None) | Err(TxError::Locked(_))) => {
                // It killed no worker. Without the database the count stays; so many outages are no rule.
                let end = store::count_attempt(&self.database, tenant, number, -1);
                if is_counted && end.await.unwrap_or(false) || is_first && !is_counted {
                    self.begun.remove(&tenant);
                }
                ActionOutcome::PutOff
            }
            Some(Ok(Some(Ok(acted)))) => ActionOutcome::Applied(acted),
            Some(Ok(Some(Err(WriteRefusal::InternalError)))) => ActionOutcome::Failed,
            Some(Ok(Some(Err(refusal)))) => ActionOutcome::Refused(refusal),
            Some(Err(error)) => {
                limited!(LOG_LIMITS[0], error, %error, message_id, "advisor action failed; replying with an error, or dead-lettering it if no reply is wanted");
                ActionOutcome::Failed
            }
        }
    }
}
