//! The transaction pipeline: the one place where a transaction of the worker is run.
//!
//! A unit of work is load, decide, persist, in two round trips. The first flight is BEGIN, the locks and every load, and
//! on another connection the enquiry numbers. Then the rules decide in memory. The second flight is the writes of what
//! has changed and COMMIT. Three entry points use it alike: a [unit of events](events), a [unit of records writes](records) and
//! an [advisor action](advisor). Each says what it needs loaded and returns a decision.

pub(crate) mod advisor;
pub(crate) mod events;
mod notifier;
mod numbers;
pub(crate) mod records;
mod tenants;

pub(crate) use notifier::OutboxNotifier;

use crate::rules::{Context, InternalError};
use crate::state::TenantState;
use crate::store::{self, Load, LoadRequest, Loaded, Locking};
use chrono::{DateTime, Datelike, TimeDelta, Utc};
use common::clock;
use common::db::{Attempts, Database, Query, TxError};
use common::model::TenantId;
use futures_util::future::try_join;
use numbers::{EnquiryNumbers, ReservedNumbers};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tenants::TenantDirectory;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Runs units of work. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    database: Database,
    numbers: EnquiryNumbers,
    notifier: OutboxNotifier,
    tenants: TenantDirectory,
}

/// What an entry point asks of the pipeline.
trait UnitOfWork: Sync {
    /// The name of the transaction in metrics and logs.
    const NAME: &'static str;
    /// What the unit gives once it has ended.
    type Output: Send;

    /// What is to be loaded.
    fn request(&self) -> &LoadRequest;

    /// Statements that go before the loads; their rows are [`Loaded::own`].
    fn own_queries(&self) -> Vec<Query<'static>> {
        Vec::new()
    }

    /// How many leads the unit can open, by tenant.
    fn can_open(&self) -> Vec<(TenantId, usize)>;

    /// Applies the rules to what was loaded. May panic: then the unit fails, and not the worker.
    fn decide(&self, loaded: &mut Loaded, tools: &mut Tools) -> Result<Decision<Self::Output>, TxError>;

    /// What the unit gives when one of its own last statements fails with this SQLSTATE.
    fn refused(&self, _sql_state: &str) -> Option<Self::Output> {
        None
    }
}

/// How a unit ends, as its entry point decides.
enum Decision<T> {
    /// What has changed in its states is written, then these statements, and committed. Where that comes to no statement at
    /// all, the pipeline alone sees it: it sends ROLLBACK, which nobody waits for.
    Commit(T, Vec<Query<'static>>),
    /// What has changed in its states is not to be written: the unit as a whole is refused.
    Discard(T),
}

/// What decisions are made with, besides what was loaded.
struct Tools {
    /// Now, in whole milliseconds (D19).
    now: DateTime<Utc>,
    numbers: ReservedNumbers,
}

impl Tools {
    /// Applies a rule to a tenant's state.
    fn apply<T>(
        &mut self,
        loaded: &mut Loaded,
        tenant: TenantId,
        skip_discovery: bool,
        rule: impl FnOnce(&mut TenantState, &mut Context<'_>) -> T,
    ) -> Result<T, TxError> {
        let state = loaded
            .states
            .get_mut(&tenant)
            .ok_or_else(|| TxError::Abandoned("the tenant does not exist".to_owned()))?;
        let numbers = self.numbers.of(tenant);
        Ok(rule(state, &mut Context { now: self.now, next_id: &mut Uuid::now_v7, numbers, skip_discovery }))
    }
}

impl Pipeline {
    /// A pipeline on `database`. Enquiry numbers are reserved through `counters`, which need not be durable.
    pub(crate) fn new(database: Database, counters: Database, notifier: OutboxNotifier) -> Self {
        Self {
            database,
            numbers: EnquiryNumbers::new(counters),
            notifier,
            tenants: TenantDirectory::default(),
        }
    }

    /// The same on other connections, with the same reserve of enquiry numbers and the same notifier.
    pub(crate) fn on(&self, database: Database, counters: Database) -> Self {
        Self { database, numbers: self.numbers.on(counters), ..self.clone() }
    }

    /// Runs a unit, again when another one was in its way, and notifies the dispatcher when it has emitted events.
    async fn run<U: UnitOfWork>(&self, unit: &U) -> Result<U::Output, TxError> {
        match self.database.run_attempts(U::NAME, &Run { pipeline: self, unit }).await {
            Ok(Ended { output, has_emitted }) => {
                if has_emitted {
                    self.notifier.notify();
                }
                Ok(output)
            }
            Err(error) => error.sql_state().and_then(|code| unit.refused(code)).ok_or(error),
        }
    }
}

struct Run<'a, U> {
    pipeline: &'a Pipeline,
    unit: &'a U,
}

struct Ended<T> {
    output: T,
    has_emitted: bool,
}

impl<U: UnitOfWork> Attempts for Run<'_, U> {
    type Output = Ended<U::Output>;

    async fn attempt(&self, database: &Database, attempt: u32) -> Result<Self::Output, TxError> {
        let done = self.run_once(database, attempt).await;
        if matches!(done, Err(TxError::Unavailable(_))) {
            // A server that crashed may have forgotten that the numbers in reserve were reserved.
            self.pipeline.numbers.forget();
        }
        done
    }
}

impl<U: UnitOfWork> Run<'_, U> {
    /// One run. The enquiry numbers that it does not take go back, however it ends.
    async fn run_once(&self, database: &Database, attempt: u32) -> Result<Ended<U::Output>, TxError> {
        let Self { pipeline, unit } = self;
        let locking = if attempt == 1 { Locking::Related } else { Locking::Everything };
        let load = Load::new(unit.request(), locking, unit.own_queries());
        let mut transaction = database.pipelined().await?;
        let can_open = unit.can_open();
        let reserved = pipeline.numbers.reserve(&can_open, clock::now().year(), transaction.connected_at());
        let (rows, numbers) = try_join(transaction.begin(load.queries()), reserved).await?;
        let mut tools = Tools { now: clock::now(), numbers };
        let mut loaded = load.read(rows)?;
        let decision = catch_unwind(AssertUnwindSafe(|| unit.decide(&mut loaded, &mut tools)))
            .unwrap_or_else(|_| Err(TxError::Abandoned("the rules panicked".to_owned())));
        match decision? {
            Decision::Commit(output, last) => {
                let has_emitted = loaded.states.values().any(|state| state.emitted().next().is_some());
                let mut queries = store::writes(&loaded.states, tools.now);
                queries.extend(last);
                if !queries.is_empty() {
                    transaction.commit(&queries).await?;
                }
                Ok(Ended { output, has_emitted })
            }
            Decision::Discard(output) => Ok(Ended { output, has_emitted: false }),
        }
    }
}

impl From<InternalError> for TxError {
    fn from(error: InternalError) -> Self {
        Self::Abandoned(error.to_string())
    }
}

/// `instant` of this machine's clock in the time of the server, which said `server_time` before `received`. Never later
/// than it truly is: the way of the server's reply counts against it.
fn in_server_time(
    instant: DateTime<Utc>,
    server_time: Option<DateTime<Utc>>,
    received: DateTime<Utc>,
) -> DateTime<Utc> {
    let ahead: TimeDelta = server_time.map_or_else(TimeDelta::zero, |server_time| server_time - received);
    instant + ahead
}

/// Waits before the database is tried again. `None` when the program shuts down first.
pub(crate) async fn wait_for_database(wait: Duration, shutdown: &CancellationToken) -> Option<()> {
    shutdown.run_until_cancelled(sleep(wait)).await
}
