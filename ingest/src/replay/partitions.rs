//! Creates the partitions of `replay_entries` ahead of time, and drops them once no signature in them can be fresh (D2).
//!
//! Every ingest does this, one at a time; it is idempotent.

use crate::store;
use crate::store::replay_partitions;
use chrono::{DateTime, Utc};
use common::clock;
use common::db::{Database, TransactionBody, TxError};
use deadpool_postgres::Transaction;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::sleep;

/// Seconds that a partition covers; the same as in the schema's functions that create and drop partitions.
const WIDTH: i64 = 600;
/// Seconds before and after now that must be covered. A signature is at most 300 s off.
const COVERED: (i64, i64) = (600, 1_200);
/// Seconds after its end at which a partition is dropped. An entry must be kept until its `t` + 300 s has passed (D2); the
/// rest allows for clock differences.
const DROP_AFTER_END: i64 = 600;
/// The interval of the maintenance.
const EVERY: Duration = Duration::from_secs(60);
/// The wait after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// The partitions to create and to drop, by their starts in seconds since the epoch.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    create: Vec<i64>,
    drop: Vec<i64>,
}

/// The partitions of `replay_entries`.
#[derive(Clone, Debug)]
pub(crate) struct ReplayPartitions {
    db: Database,
    /// Held while partitions are created: others would wait for the same lock in the database, each with a connection.
    creation_lock: Arc<Mutex<()>>,
}

impl ReplayPartitions {
    pub(crate) fn new(db: Database) -> Self {
        Self { db, creation_lock: Arc::default() }
    }

    /// Creates the partitions that are missing around `now`, then drops the expired ones.
    pub(crate) async fn ensure_current(&self, now: DateTime<Utc>) -> Result<(), TxError> {
        let _creation_lock = self.creation_lock.lock().await;
        let now = now.timestamp();
        let has_expired = self.db.run_tx("replay_partitions.create", &CreateMissing { now }).await?;
        if has_expired {
            // A transaction of its own, so that a failing drop does not roll back the new partitions.
            self.db.run_tx("replay_partitions.drop", &DropExpired { now }).await?;
        }
        Ok(())
    }
}

/// Creates the missing partitions, and returns whether some have expired.
struct CreateMissing {
    now: i64,
}

impl TransactionBody for CreateMissing {
    type Output = bool;

    async fn run(&self, tx: &Transaction<'_>) -> Result<bool, TxError> {
        replay_partitions::lock(tx).await?;
        let plan = plan(&replay_partitions::list(tx).await?, self.now);
        for start in plan.create {
            replay_partitions::create(tx, start).await?;
        }
        Ok(!plan.drop.is_empty())
    }
}

/// Drops the partitions in which no signature can be fresh.
struct DropExpired {
    now: i64,
}

impl TransactionBody for DropExpired {
    type Output = ();

    async fn run(&self, tx: &Transaction<'_>) -> Result<(), TxError> {
        replay_partitions::lock(tx).await?;
        for start in plan(&replay_partitions::list(tx).await?, self.now).drop {
            replay_partitions::drop(tx, start).await?;
        }
        Ok(())
    }
}

/// Maintains the partitions until the program ends.
pub(crate) async fn maintain_partitions(partitions: ReplayPartitions) {
    let outage = store::outage_of_background("replay partitions");
    loop {
        match partitions.ensure_current(clock::now()).await {
            Ok(()) => {
                outage.report_success();
                sleep(EVERY).await;
            }
            Err(error) => {
                outage.report_failure(&error);
                sleep(RETRY).await;
            }
        }
    }
}

fn plan(existing: &[i64], now: i64) -> Plan {
    let first = (now - COVERED.0).div_euclid(WIDTH) * WIDTH;
    let wanted = (first..=now + COVERED.1).step_by(WIDTH.unsigned_abs() as usize);
    Plan {
        create: wanted.filter(|start| !existing.contains(start)).collect(),
        drop: existing.iter().copied().filter(|start| start + WIDTH < now - DROP_AFTER_END).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::signature::TOLERANCE_SECONDS;

    const NOW: i64 = 1_767_225_900;

    #[test]
    fn all_fresh_timestamps_are_covered_without_gaps() {
        let plan = plan(&[], NOW);
        assert_eq!(plan.create, [NOW - 900, NOW - 300, NOW + 300, NOW + 900]);
        let covers = |t: i64| plan.create.iter().any(|start| (*start..start + WIDTH).contains(&t));
        assert!((NOW - TOLERANCE_SECONDS..=NOW + TOLERANCE_SECONDS + 600).all(covers));
    }

    #[test]
    fn a_partition_is_dropped_only_when_nothing_in_it_can_be_fresh() {
        let starts: Vec<i64> = (-5..5).map(|i| NOW - 300 + i * WIDTH).collect();
        let dropped = plan(&starts, NOW).drop;
        assert!(!dropped.is_empty());
        for start in dropped {
            let newest = start + WIDTH - 1;
            assert!(newest + TOLERANCE_SECONDS < NOW, "{start}");
        }
    }

    #[test]
    fn existing_partitions_are_kept_and_new_ones_are_never_dropped() {
        for now in (NOW..NOW + WIDTH).step_by(7) {
            let made = plan(&[], now).create;
            assert_eq!(plan(&made, now), Plan { create: vec![], drop: vec![] });
        }
    }
}
