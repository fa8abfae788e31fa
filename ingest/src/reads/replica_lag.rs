//! By how much the replica of `DATABASE_READ_URL` lags behind the primary.
//!
//! Every ingest writes a heartbeat on the primary, a row with the primary's time, and reads it on the replica. The replica has
//! everything that was committed before the heartbeat that it shows. Both times are of the primary's clock, so the clocks of ingest
//! and of the replica do not matter. A replica that does not follow the primary any more, for example after a failover, shows a
//! heartbeat that gets older and older.

use crate::store::{replication_heartbeat, run_until};
use chrono::{DateTime, Utc};
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{READ_REPLICA_LAG, READ_REPLICA_LAG_LIMIT};
use common::periodic::ticks;
use metrics::Gauge;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::Instant;

/// Limits the log lines of a replica that alternates between being used and not.
static CHANGES: LogLimit<2> = LogLimit::new();

/// The fraction of the limit after which the lag is measured again.
const MEASURED_PER_LIMIT: u32 = 4;
/// The longest time between two measurements.
const MEASURED_EVERY_AT_MOST: Duration = Duration::from_secs(1);

/// By how much the replica lags behind, and by how much it may.
#[derive(Debug)]
pub(crate) struct ReplicaLag {
    limit: Duration,
    /// `None` while the replica cannot be used.
    measured: Mutex<Option<Measurement>>,
}

/// What the replica had at a time.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    at: Instant,
    lag: Duration,
}

impl Measurement {
    /// The age of the replica's data at a time, at most: what was committed since the measurement may not be there.
    fn age(self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at) + self.lag
    }
}

/// Why the lag could not be measured.
#[derive(Debug, Error)]
enum MeasurementError {
    #[error("reading the heartbeat on the replica: {0}")]
    Replica(TxError),
    #[error("writing the heartbeat on the primary: {0}")]
    Primary(TxError),
    #[error("the replica shows a heartbeat that is newer than the primary's clock")]
    ClockSetBack,
}

impl ReplicaLag {
    /// The replica may not be used before the first measurement.
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, measured: Mutex::new(None) }
    }

    /// Whether the replica has everything that was committed before so long ago as it may lag behind.
    pub(super) fn is_within_limit(&self, now: Instant) -> bool {
        self.measured.lock().is_some_and(|measurement| measurement.age(now) <= self.limit)
    }

    fn set(&self, measurement: Option<Measurement>) {
        *self.measured.lock() = measurement;
    }

    /// The time between two measurements. While the replica follows at once, its age is at most twice this time.
    fn measured_every(&self) -> Duration {
        (self.limit / MEASURED_PER_LIMIT).min(MEASURED_EVERY_AT_MOST)
    }
}

/// Measures the lag and sets its gauge, until the program ends. `within` is how long a server may take.
pub(crate) async fn observe_replica(lag: Arc<ReplicaLag>, primary: Database, replica: Database, within: Duration) {
    let every = lag.measured_every();
    metrics::gauge!(READ_REPLICA_LAG_LIMIT).set(lag.limit.as_secs_f64());
    let mut state = ReportedState::new(metrics::gauge!(READ_REPLICA_LAG), lag.limit);
    let mut ticks = ticks(every);
    loop {
        ticks.tick().await;
        let measured = measure(&primary, &replica, every / 2, within).await;
        match &measured {
            Ok(measurement) => lag.set(Some(*measurement)),
            // The last measurement counts on, until it is too old.
            Err(MeasurementError::Primary(_)) => {}
            Err(MeasurementError::Replica(_) | MeasurementError::ClockSetBack) => lag.set(None),
        }
        state.report(measured, lag.is_within_limit(Instant::now()));
    }
}

async fn measure(
    primary: &Database, replica: &Database, beat_after: Duration, within: Duration,
) -> Result<Measurement, MeasurementError> {
    let shown = run_until(replica, Instant::now() + within, replication_heartbeat::read).await;
    let shown = shown.map_err(MeasurementError::Replica)?;
    // Taken before the primary's clock is read, so that the age is never too small.
    let at = Instant::now();
    let clock = run_until(primary, at + within, async |client| replication_heartbeat::beat(client, beat_after).await);
    lag_of(shown, clock.await.map_err(MeasurementError::Primary)?).map(|lag| Measurement { at, lag })
}

/// The lag of a replica that showed a heartbeat before the primary's clock was read.
fn lag_of(shown: DateTime<Utc>, clock: DateTime<Utc>) -> Result<Duration, MeasurementError> {
    (clock - shown).to_std().map_err(|_| MeasurementError::ClockSetBack)
}

/// What the operator knows.
struct ReportedState {
    gauge: Gauge,
    limit: Duration,
    began: Instant,
    newest: Option<Measurement>,
    /// `None` until the first line is logged.
    is_replica_used: Option<bool>,
}

impl ReportedState {
    fn new(gauge: Gauge, limit: Duration) -> Self {
        Self { gauge, limit, began: Instant::now(), newest: None, is_replica_used: None }
    }

    /// Sets the gauge, which grows while the lag cannot be measured, and logs from where records are read if that has changed.
    fn report(&mut self, measured: Result<Measurement, MeasurementError>, is_replica_used: bool) {
        let error = measured.map(|measurement| self.newest = Some(measurement)).err();
        let age = self.newest.map_or_else(|| self.began.elapsed(), |newest| newest.age(Instant::now()));
        self.gauge.set(age.as_secs_f64());
        let is_starting = self.is_replica_used.is_none() && self.began.elapsed() <= self.limit;
        if self.is_replica_used == Some(is_replica_used) || (is_starting && !is_replica_used) {
            return;
        }
        self.is_replica_used = Some(is_replica_used);
        let lag_seconds = age.as_secs();
        if is_replica_used {
            limited!(CHANGES[0], info, lag_seconds, "records are read on the replica");
        } else {
            let error = error.map_or_else(|| "it lags too far behind".to_owned(), |error| error.to_string());
            limited!(CHANGES[1], warn, lag_seconds, %error, "the replica cannot be used; records are read on the primary");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    #[test]
    fn a_replica_is_used_while_its_last_measurement_is_recent_enough() {
        let (lag, now) = (ReplicaLag::new(LIMIT), Instant::now());
        assert!(!lag.is_within_limit(now), "not before the first measurement");
        lag.set(Some(Measurement { at: now, lag: Duration::from_secs(2) }));
        assert!(lag.is_within_limit(now + Duration::from_secs(3)));
        let later = now + Duration::from_millis(3_001);
        assert!(!lag.is_within_limit(later), "the time since the measurement counts");
        lag.set(Some(Measurement { at: now, lag: LIMIT + Duration::from_millis(1) }));
        assert!(!lag.is_within_limit(now));
    }

    #[test]
    fn the_lag_is_the_age_of_the_heartbeat_by_the_clock_of_the_primary() {
        let at = |seconds: i64| DateTime::from_timestamp(1_767_225_600 + seconds, 0).unwrap();
        assert_eq!(lag_of(at(0), at(7)).unwrap(), Duration::from_secs(7));
        assert!(matches!(lag_of(at(1), at(0)), Err(MeasurementError::ClockSetBack)));
    }

    #[test]
    fn the_lag_is_measured_often_enough_for_the_limit() {
        for (limit, every) in [(1_000, 250), (4_000, 1_000), (60_000, 1_000)] {
            let lag = ReplicaLag::new(Duration::from_millis(limit));
            assert_eq!(lag.measured_every(), Duration::from_millis(every), "{limit} ms");
        }
    }
}
