//! Reads of records. A record of another tenant is not found (D18).
//!
//! Where there is no replica, a round trip to the primary writes the reads' replay entries as well. With one in
//! `DATABASE_READ_URL`, records are read there while it lags behind by at most `CONNECT_READ_MAX_LAG`, and else on the
//! primary.

mod pools;
mod read_limit;
mod replica_lag;
mod server_reads;

use crate::auth::Verified;
use crate::refusal::Refusal;
use crate::replay::ReplayStore;
use crate::store;
use crate::store::RowError;
use crate::store::records::{LookupRows, RecordLookup, RecordQuery};
use common::db::TxError;
use common::limited;
use common::log_limit::LogLimit;
use common::outage::Outage;
use common::write::WriteRefusal;
pub(crate) use pools::ReadPools;
pub(crate) use read_limit::ReadLimit;
pub(crate) use replica_lag::{ReplicaLag, observe_replica};
use server_reads::ServerReads;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Row;

/// Limits the log lines of failed reads.
static FAULTS: LogLimit<3> = LogLimit::new();

/// The fraction of a read's time that the replica may take. The rest is for the primary, if the replica does not
/// respond.
const REPLICA_TIME_FRACTION: f64 = 0.5;

/// Why a read failed. [`RecordReader::rows`] logs and counts it.
#[derive(Clone, Debug)]
pub(crate) enum ReadError {
    /// The database did not respond in time, or too many reads wait for it.
    TimedOut,
    Database(Arc<TxError>),
}

/// The result of a read. Callers must not return, log or count it before the signature is admitted.
pub(crate) type ReadResult = Result<Vec<Row>, ReadError>;

/// Reads records on the primary or on a replica.
#[derive(Debug)]
pub(crate) struct RecordReader {
    replays: Arc<ReplayStore>,
    primary: ServerReads,
    replica: Option<Replica>,
    outage: Arc<Outage>,
}

/// A server that may lag behind the primary.
#[derive(Debug)]
struct Replica {
    reads: ServerReads,
    lag: Arc<ReplicaLag>,
}

impl RecordReader {
    /// Sends round trips on the connections of `primary`, with entries as `replays` writes them, and of `replica`,
    /// where there is one. `within` is the longest time for a round trip.
    pub(crate) fn start(
        replays: Arc<ReplayStore>, primary: &ReadPools, replica: Option<(&ReadPools, Arc<ReplicaLag>)>,
        within: Duration,
    ) -> Self {
        let outage = Arc::new(store::outage_of_requests("records reads"));
        let start = |server, pools, within| ServerReads::start(server, &replays, pools, within, &outage);
        let replica = replica.map(|(pools, lag)| {
            let reads = start("replica", pools, within.mul_f64(REPLICA_TIME_FRACTION));
            Replica { reads, lag }
        });
        let primary = start("primary", primary, within);
        Self { replays, primary, replica, outage }
    }

    fn usable_replica(&self) -> Option<&ServerReads> {
        self.replica
            .as_ref()
            .filter(|replica| replica.lag.is_within_limit(Instant::now()))
            .map(|replica| &replica.reads)
    }

    /// Uses up the signature of a read and runs its query: in one round trip on the primary, or concurrently on the
    /// primary and the replica. Returns the result only if the signature is admitted; `None` when there is no query.
    /// Refuses as [`ReplayStore::use_up`] does.
    pub(crate) async fn admit_and_find(
        &self, verified: &Verified, query: Option<RecordQuery>,
    ) -> Result<Option<ReadResult>, Refusal> {
        let entry = self.replays.entry(verified, None)?;
        let Some(query) = query else {
            self.replays.use_up(verified, entry).await?;
            return Ok(None);
        };
        let (tenant, deadline) = (verified.caller().tenant_id, verified.deadline());
        let lookup = RecordLookup { tenant, query };
        if self.usable_replica().is_some() {
            // A signature that is refused does not wait for the record.
            let found = async { Ok(self.find(lookup, deadline).await) };
            let ((), found) = tokio::try_join!(self.replays.use_up(verified, entry), found)?;
            return Ok(Some(found));
        }
        let sent = self.primary.send(Some(entry), lookup, deadline).await;
        let result = sent.map_err(|_| Refusal::ReplayStoreUnavailable)?;
        result.admission.ok_or(Refusal::ReplayStoreUnavailable)?.check(verified)?;
        Ok(Some(found(result.found)))
    }

    /// Looks records up, on the replica if it may be used. What fails there is repeated on the primary: a replica may
    /// also cancel a look-up because it conflicts with recovery.
    pub(crate) async fn find(&self, lookup: RecordLookup, deadline: Instant) -> ReadResult {
        if let Some(replica) = self.usable_replica() {
            let error = match find_on(replica, lookup.clone(), deadline).await {
                Ok(rows) => return Ok(rows),
                Err(ReadError::TimedOut) => "no response in time".to_owned(),
                Err(ReadError::Database(error)) => error.to_string(),
            };
            limited!(FAULTS[2], warn, %error, "reading a record on the replica failed; reading it on the primary");
        }
        find_on(&self.primary, lookup, deadline).await
    }

    /// The rows of a read (D21c). 503 `replay_store_unavailable` when the database is unavailable, 500 when it refused
    /// the query.
    pub(crate) fn rows(&self, found: ReadResult) -> Result<Vec<Row>, Refusal> {
        match found {
            Ok(rows) => {
                self.outage.report_success();
                Ok(rows)
            }
            Err(ReadError::TimedOut) => Err(Refusal::ReplayStoreUnavailable),
            Err(ReadError::Database(error)) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &TxError) -> Refusal {
        match error {
            TxError::Unavailable(_) | TxError::Conflict(_) | TxError::Locked(_) | TxError::Stale(_) => {
                self.outage.report_failure(error);
                Refusal::ReplayStoreUnavailable
            }
            TxError::StatementFailed(_) | TxError::Abandoned(_) => {
                limited!(FAULTS[0], error, %error, "the database refused a records query; responding 500");
                Refusal::Internal
            }
        }
    }
}

async fn find_on(server: &ServerReads, lookup: RecordLookup, deadline: Instant) -> ReadResult {
    found(server.send(None, lookup, deadline).await?.found)
}

fn found(rows: Option<LookupRows>) -> ReadResult {
    rows.unwrap_or_else(|| Ok(Vec::new())).map_err(ReadError::Database)
}

/// Logs a row that does not match the schema, and refuses the request with 500.
pub(crate) fn or_internal_error<V>(read: Result<V, RowError>) -> Result<V, Refusal> {
    read.map_err(|error| {
        limited!(FAULTS[1], error, %error, "a record does not match the schema; responding 500");
        Refusal::Internal
    })
}

/// The refusal of a read whose record does not exist.
pub(crate) const fn not_found() -> Refusal {
    Refusal::Write(WriteRefusal::NotFound)
}
