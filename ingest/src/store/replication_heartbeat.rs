//! `replication_heartbeat`: by how much a replica lags behind the primary.

use chrono::{DateTime, Utc};
use common::db::Client;
use std::time::Duration;
use tokio_postgres::Error;

common::statements! {
    /// Writes the heartbeat if it is older than so many milliseconds, or in the future because the clock was set back. Returns
    /// the primary's clock.
    const BEAT = "-- replication_heartbeat.beat
    WITH beat AS (
        UPDATE replication_heartbeat SET beat_at = clock_timestamp()
        WHERE beat_at NOT BETWEEN clock_timestamp() - $1::bigint * interval '1 millisecond' AND clock_timestamp()
    )
    SELECT clock_timestamp()";

    /// The heartbeat that a server shows.
    const READ = "-- replication_heartbeat.read
    SELECT beat_at FROM replication_heartbeat";
}

/// Writes the heartbeat on the primary unless it is at most `age` old, so that several ingests write it once. Returns the
/// primary's clock.
pub(crate) async fn beat(client: &Client, age: Duration) -> Result<DateTime<Utc>, Error> {
    let statement = super::prepared(client, BEAT).await?;
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    client.query_one(&statement, &[&age]).await?.try_get(0)
}

/// When the heartbeat that a server shows was written, by the primary's clock.
pub(crate) async fn read(client: &Client) -> Result<DateTime<Utc>, Error> {
    let statement = super::prepared(client, READ).await?;
    client.query_one(&statement, &[]).await?.try_get(0)
}
