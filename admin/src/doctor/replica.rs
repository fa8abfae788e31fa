//! The read replica of ingest.

use super::Finding;
use crate::AdminError;
use std::time::Duration;
use tokio_postgres::Client;

common::statements! {
    /// The heartbeat that a server shows, and its age by the server's clock; both in seconds.
    const HEARTBEAT = "-- doctor.replication_heartbeat
    SELECT extract(epoch FROM beat_at)::float8, extract(epoch FROM clock_timestamp() - beat_at)::float8
    FROM replication_heartbeat";
}

/// A replica that lags behind further than ingest accepts. The heartbeat is written only while an ingest runs; a replica that has
/// the newest one is complete.
pub(super) async fn lag(
    primary: &Client,
    replica: &Client,
    limit: Duration,
) -> Result<Vec<Finding>, AdminError> {
    // In this order, so that a heartbeat that is written meanwhile is not missed on the replica.
    let newest = primary.query_one(HEARTBEAT.as_str(), &[]).await?;
    let shown = replica.query_one(HEARTBEAT.as_str(), &[]).await?;
    let (newest, age, shown): (f64, f64, f64) = (newest.try_get(0)?, newest.try_get(1)?, shown.try_get(0)?);
    let lag = newest - shown + age;
    if shown >= newest || lag <= limit.as_secs_f64() {
        return Ok(Vec::new());
    }
    Ok(vec![Finding::warning(
        format!(
            "the server of DATABASE_READ_URL lags {lag:.0} s behind the primary, so ingest reads records on the primary"
        ),
        "Read pg_stat_wal_receiver and pg_is_wal_replay_paused() on the replica; see the runbook, ConnectReadReplicaBehind",
    )])
}
