//! Resources: bytes of the write-ahead log and on disk, commits, and CPU time of each program.

use crate::cpu::{CpuMeter, CpuTime};
use crate::time_limit::with_step_timeout;
use std::time::Instant;
use tokio_postgres::Client;

/// Counters of all resources at one time.
pub(super) struct ResourceSnapshot {
    at: Instant,
    /// Position in the write-ahead log, in bytes.
    wal: i64,
    /// Size of the database with indexes, in bytes.
    disk: i64,
    /// Transactions committed in the database. Postgres' processes report theirs with up to a second of delay.
    commits: i64,
    cpu: CpuTime,
}

/// Resources used between two snapshots.
#[derive(Clone, Debug)]
pub(super) struct ResourceUsage {
    pub(super) seconds: f64,
    pub(super) wal: f64,
    pub(super) disk: f64,
    pub(super) commits: f64,
    pub(super) cpu: CpuTime,
}

impl ResourceSnapshot {
    pub(super) async fn take(database: &Client, meter: &CpuMeter) -> Self {
        let statement =
            "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::int8, pg_database_size(current_database()),
            (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())";
        let row = with_step_timeout("sizes are read", database.query_one(statement, &[])).await;
        let row = row.unwrap_or_else(|error| panic!("sizes cannot be read: {error:?}"));
        Self { at: Instant::now(), wal: row.get(0), disk: row.get(1), commits: row.get(2), cpu: meter.read() }
    }

    /// Resources used since `before`.
    pub(super) fn since(&self, before: &Self) -> ResourceUsage {
        ResourceUsage {
            seconds: (self.at - before.at).as_secs_f64(),
            wal: (self.wal - before.wal) as f64,
            disk: (self.disk - before.disk) as f64,
            commits: (self.commits - before.commits) as f64,
            cpu: self.cpu.since(&before.cpu),
        }
    }
}

impl ResourceUsage {
    /// The sum of both.
    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            seconds: self.seconds + other.seconds,
            wal: self.wal + other.wal,
            disk: self.disk + other.disk,
            commits: self.commits + other.commits,
            cpu: self.cpu.plus(&other.cpu),
        }
    }
}
