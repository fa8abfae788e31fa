//! Keeps the partitions of used signatures: made ahead, dropped once no signature in them can be fresh (D2).
//!
//! Every ingest does it; one at a time, and what one has done the next finds done.

use crate::outage::Outage;
use crate::store::replay_partitions;
use chrono::{DateTime, Utc};
use common::clock;
use common::db::{Database, TxError, Work};
use deadpool_postgres::Transaction;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::sleep;

/// Seconds that a partition covers, as the functions of the schema that make and drop them know.
const WIDTH: i64 = 600;
/// Seconds before and after now that must be covered. A signature is at most 300 s off.
const COVERED: (i64, i64) = (600, 1_200);
/// Seconds after its end at which a partition goes. An entry must live until its `t` + 300 s is past (D2); the rest is
/// for clocks that differ.
const KEPT: i64 = 600;
/// How often it is looked after.
const EVERY: Duration = Duration::from_secs(60);
/// The wait after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// What is to be done, as starts in seconds since the epoch.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    create: Vec<i64>,
    drop: Vec<i64>,
}

/// The partitions of `replay_entries`.
#[derive(Clone, Debug)]
pub struct Partitions {
    db: Database,
    /// Held by the one that makes them: others would wait for the same lock in the database, with a connection each.
    turn: Arc<Mutex<()>>,
}

impl Partitions {
    /// Those in `db`.
    pub fn new(db: Database) -> Self {
        Self { db, turn: Arc::default() }
    }

    /// Makes what is missing around `now`, then drops what is over.
    pub async fn keep(&self, now: DateTime<Utc>) -> Result<(), TxError> {
        let _turn = self.turn.lock().await;
        let now = now.timestamp();
        let is_any_over = self.db.run_tx("replay_partitions.create", &MakeAhead { now }).await?;
        if is_any_over {
            // Apart, so that one that can't be dropped yet doesn't undo what was made.
            self.db.run_tx("replay_partitions.drop", &DropOver { now }).await?;
        }
        Ok(())
    }
}

/// Makes the partitions that are missing, and says whether there are some to drop.
struct MakeAhead {
    now: i64,
}

impl Work for MakeAhead {
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

/// Drops those in which nothing can be fresh any more.
struct DropOver {
    now: i64,
}

impl Work for DropOver {
    type Output = ();

    async fn run(&self, tx: &Transaction<'_>) -> Result<(), TxError> {
        replay_partitions::lock(tx).await?;
        for start in plan(&replay_partitions::list(tx).await?, self.now).drop {
            replay_partitions::drop(tx, start).await?;
        }
        Ok(())
    }
}

/// Looks after the partitions for as long as the program lives.
pub async fn maintain(partitions: Partitions) {
    let outage = Outage::new("replay partitions");
    loop {
        match partitions.keep(clock::now()).await {
            Ok(()) => {
                outage.worked();
                sleep(EVERY).await;
            }
            Err(error) => {
                outage.failed(&error);
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
        drop: existing.iter().copied().filter(|start| start + WIDTH < now - KEPT).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::signature::TOLERANCE_SECONDS;

    const NOW: i64 = 1_767_225_900;

    #[test]
    fn what_can_be_signed_now_is_covered_without_gaps() {
        let plan = plan(&[], NOW);
        assert_eq!(plan.create, [NOW - 900, NOW - 300, NOW + 300, NOW + 900]);
        let covers = |t: i64| plan.create.iter().any(|start| (*start..start + WIDTH).contains(&t));
        assert!((NOW - TOLERANCE_SECONDS..=NOW + TOLERANCE_SECONDS + 600).all(covers));
    }

    #[test]
    fn a_partition_goes_only_when_nothing_in_it_can_be_fresh() {
        let starts: Vec<i64> = (-5..5).map(|i| NOW - 300 + i * WIDTH).collect();
        let dropped = plan(&starts, NOW).drop;
        assert!(!dropped.is_empty());
        for start in dropped {
            let newest = start + WIDTH - 1;
            assert!(newest + TOLERANCE_SECONDS < NOW, "{start}");
        }
    }

    #[test]
    fn what_is_there_is_left_alone_and_what_is_made_is_never_dropped() {
        for now in (NOW..NOW + WIDTH).step_by(7) {
            let made = plan(&[], now).create;
            assert_eq!(plan(&made, now), Plan { create: vec![], drop: vec![] });
        }
    }
}
