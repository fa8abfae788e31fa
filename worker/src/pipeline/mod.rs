//! The transaction pipeline: the only place where the worker runs a transaction.
//!
//! A unit of work is load, decide, persist, in two round trips. The first is BEGIN, the locks and every load, and
//! on another connection the enquiry numbers. Then the rules decide in memory. The second is the writes of
//! changed records and COMMIT. It has three entry points: a [unit of events](events), a
//! [unit of records writes](records) and an [advisor action](advisor). Each names the data to load and returns a decision.

pub(crate) mod advisor;
mod erasures;
pub(crate) mod events;
mod notifier;
mod numbers;
pub(crate) mod records;
mod tenants;

pub(crate) use notifier::OutboxNotifier;

use crate::rules::{Context, Event, InternalError, NumberBlock, WriteError};
use crate::state::TenantState;
use crate::store::{self, Load, LoadRequest, Loaded, Locking};
use chrono::{DateTime, Datelike, Utc};
use common::db::{Database, Query, RetryableTransaction, TxError};
use common::log_limit::LogLimit;
use common::model::TenantId;
use common::sealed::MasterKeys;
use common::write::WriteRefusal;
use common::{clock, limited};
use erasures::{ErasureCache, ErasureCheck};
use futures_util::future::try_join;
use numbers::{EnquiryNumbers, ReservedNumbers};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tenants::TenantDirectory;

/// Limits the log lines about broken invariants of writes and actions.
static BROKEN_INVARIANTS: LogLimit<1> = LogLimit::new();

/// Runs units of work. Clones share the reserve of enquiry numbers, the notifier, the tenant directory and what this process has
/// learned of erasures.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    database: Database,
    numbers: EnquiryNumbers,
    notifier: OutboxNotifier,
    tenants: TenantDirectory,
    erasures: ErasureCache,
}

/// A unit of work as its entry point describes it to the pipeline.
trait UnitOfWork: Sync {
    /// Name of the transaction in metrics and logs.
    const NAME: &'static str;
    /// Result of the unit.
    type Output: Send;

    /// The data to load.
    fn request(&self) -> &LoadRequest;

    /// The events of the unit, which are refused if they are older than the erasure of a person whom they name.
    fn events(&self) -> &[Event<'_>] {
        &[]
    }

    /// Statements that claim what the unit needs, such as idempotency keys. They are sent before the loads; [`Loaded::claims`]
    /// has their rows.
    fn claim_queries(&self) -> Vec<Query<'static>> {
        Vec::new()
    }

    /// Whether it is a dry run (D46): decided as if it were applied, and rolled back. It reserves no enquiry numbers.
    fn is_dry_run(&self) -> bool {
        false
    }

    /// The largest number of leads that the unit may open, by tenant.
    fn max_new_leads(&self) -> Vec<(TenantId, usize)>;

    /// Applies the rules to the loaded data. A panic fails the unit, but not the worker.
    fn decide(&self, loaded: &mut Loaded, unit_ctx: &mut UnitContext) -> Result<Decision<Self::Output>, TxError>;

    /// The result that a unit has although its transaction failed, if this SQLSTATE of one of its last statements is a refusal;
    /// `None` if it is an error.
    fn result_of_failure(&self, _sql_state: &str) -> Option<Self::Output> {
        None
    }
}

/// How a unit ends, as its entry point decides.
enum Decision<T> {
    /// Write the changes of the states, then these statements, and commit. If there is no statement to send, the pipeline
    /// sends ROLLBACK instead and does not wait for it.
    Commit(T, Vec<Query<'static>>),
    /// Write nothing: the unit as a whole is refused.
    Discard(T),
}

/// What the rules need besides the loaded data.
struct UnitContext {
    /// The current time in whole milliseconds (D19), by the database's clock.
    now: DateTime<Utc>,
    numbers: ReservedNumbers,
    erasures: ErasureCheck,
    is_dry_run: bool,
}

impl UnitContext {
    /// Applies a rule to a tenant's state.
    fn apply<T>(
        &mut self, loaded: &mut Loaded, tenant: TenantId, skip_discovery: bool,
        rule: impl FnOnce(&mut TenantState, &mut Context<'_>) -> T,
    ) -> Result<T, TxError> {
        let state =
            loaded.states.get_mut(&tenant).ok_or_else(|| TxError::Abandoned("the tenant does not exist".to_owned()))?;
        // A dry run has a number that is neither shown nor stored; nor is the owner whose turn it decides.
        let mut made_up = self.is_dry_run.then(|| NumberBlock::new(0, [1]));
        let numbers = match &mut made_up {
            Some(made_up) => made_up,
            None => self.numbers.of(tenant),
        };
        // UUIDv7 (D18). An erasure finds new rows by the time in their ids.
        let next_id = &mut clock::database_id;
        Ok(rule(state, &mut Context { now: self.now, next_id, numbers, skip_discovery }))
    }
}

impl Pipeline {
    /// A pipeline on `database`. Enquiry numbers are reserved through `counters`, a pool whose commits need not wait for the
    /// disk. The master keys open the key of the hashes of erased identities.
    pub(crate) fn new(
        database: Database, counters: Database, notifier: OutboxNotifier, master_keys: MasterKeys,
    ) -> Self {
        Self {
            database,
            numbers: EnquiryNumbers::new(counters),
            notifier,
            tenants: TenantDirectory::default(),
            erasures: ErasureCache::new(master_keys),
        }
    }

    /// A pipeline that shares everything but the connections.
    pub(crate) fn with_connections(&self, database: Database, counters: Database) -> Self {
        Self { database, numbers: self.numbers.with_connections(counters), ..self.clone() }
    }

    /// Runs a unit, retries it after a conflict with another one, and notifies the dispatchers if it has emitted events.
    async fn run<U: UnitOfWork>(&self, unit: &U) -> Result<U::Output, TxError> {
        match self.database.run_attempts(U::NAME, &UnitRun { pipeline: self, unit }).await {
            Ok(FinishedUnit { output, emitting }) => {
                if !emitting.is_empty() {
                    self.notifier.notify(&emitting);
                }
                Ok(output)
            }
            Err(error) => error.sql_state().and_then(|code| unit.result_of_failure(code)).ok_or(error),
        }
    }
}

struct UnitRun<'a, U> {
    pipeline: &'a Pipeline,
    unit: &'a U,
}

struct FinishedUnit<T> {
    output: T,
    /// Tenants with new events in the outbox.
    emitting: Vec<TenantId>,
}

impl<U: UnitOfWork> RetryableTransaction for UnitRun<'_, U> {
    type Output = FinishedUnit<U::Output>;

    async fn attempt(&self, database: &Database, attempt: u32) -> Result<Self::Output, TxError> {
        let done = self.run_once(database, attempt).await;
        if let Err(error) = &done
            && is_reserve_in_doubt(error)
        {
            self.pipeline.numbers.forget();
        }
        done
    }
}

impl<U: UnitOfWork> UnitRun<'_, U> {
    /// One attempt. Enquiry numbers that it does not use return to the reserve, whatever its result.
    async fn run_once(&self, database: &Database, attempt: u32) -> Result<FinishedUnit<U::Output>, TxError> {
        let Self { pipeline, unit } = self;
        let locking = if attempt == 1 { Locking::Related } else { Locking::Everything };
        let check = pipeline.erasures.check(unit.events());
        let load = Load::new(unit.request(), locking, unit.claim_queries(), check.query());
        let mut transaction = database.pipelined().await?;
        let is_dry_run = unit.is_dry_run();
        let max_new_leads = if is_dry_run { Vec::new() } else { unit.max_new_leads() };
        let year = clock::database_now().year();
        let reserved = pipeline.numbers.reserve(&max_new_leads, year, transaction.connected_at());
        let (rows, numbers) = try_join(transaction.begin(load.queries()), reserved).await?;
        let mut loaded = load.into_loaded(rows)?;
        pipeline.erasures.learn(&check, &loaded.tenant_erasures, unit.events())?;
        let erasures = check.with_found(std::mem::take(&mut loaded.erased_identities));
        let mut unit_ctx = UnitContext { now: clock::database_now(), numbers, erasures, is_dry_run };
        let decision = catch_unwind(AssertUnwindSafe(|| unit.decide(&mut loaded, &mut unit_ctx)))
            .unwrap_or_else(|_| Err(TxError::Abandoned("the rules panicked".to_owned())));
        match decision? {
            Decision::Commit(output, last) if is_dry_run => {
                // Its last statements refuse it if they would refuse the write.
                transaction.roll_back(&last).await?;
                Ok(FinishedUnit { output, emitting: Vec::new() })
            }
            Decision::Commit(output, last) => {
                let emits = |state: &&TenantState| state.emitted().next().is_some();
                let emitting = loaded.states.values().filter(emits).map(|state| state.tenant.id).collect();
                let mut queries = store::writes(&loaded.states, unit_ctx.now);
                queries.extend(last);
                if !queries.is_empty() {
                    transaction.commit(&queries).await?;
                }
                Ok(FinishedUnit { output, emitting })
            }
            Decision::Discard(output) => Ok(FinishedUnit { output, emitting: Vec::new() }),
        }
    }
}

/// Whether an error says that enquiry numbers in reserve may belong to somebody else: the server may have crashed and
/// forgotten that they were reserved, or a number from them was in use.
fn is_reserve_in_doubt(error: &TxError) -> bool {
    matches!(error, TxError::Unavailable(_)) || error.constraint() == Some(store::ENQUIRY_NUMBER_KEY)
}

/// The refusal of a write or action that the rules have not applied. Logs a broken invariant.
fn refusal(error: WriteError) -> WriteRefusal {
    match error {
        WriteError::Refused(refusal) => refusal,
        WriteError::Internal(error) => {
            limited!(BROKEN_INVARIANTS[0], error, %error, "a rule found a broken invariant; replying with an internal error");
            WriteRefusal::InternalError
        }
    }
}

impl From<InternalError> for TxError {
    fn from(error: InternalError) -> Self {
        Self::Abandoned(error.to_string())
    }
}
