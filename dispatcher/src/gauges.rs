//! Gauges of the outbox and of deliveries, refreshed in the background instead of at each scrape.

use crate::store;
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{OUTBOX_OLDEST, OUTBOX_PENDING, WEBHOOK_DELIVERIES, WEBHOOK_DUE, WEBHOOK_OLDEST_DUE};
use common::model::DeliveryState;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Limits the log lines about failures.
static FAILED: LogLimit<1> = LogLimit::new();

/// Shortest time between two refreshes.
const REFRESH_INTERVAL_MIN: Duration = Duration::from_secs(2);
/// The pause after the counts, as a multiple of their duration: the longer they take, the less often they are made.
const PAUSE_FACTOR: u32 = 50;

/// Refreshes the gauges until `shutdown`.
pub(crate) async fn observe(database: Database, shutdown: CancellationToken) {
    loop {
        let begun = Instant::now();
        if let Err(error) = refresh(&database).await {
            limited!(FAILED[0], warn, %error, "refreshing gauges failed; they keep their last values");
        }
        let pause = (begun.elapsed() * PAUSE_FACTOR).max(REFRESH_INTERVAL_MIN);
        if shutdown.run_until_cancelled(sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Counts are exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
async fn refresh(database: &Database) -> Result<(), TxError> {
    let [(outbox, outbox_oldest), (pending, _), (dead, _)] = store::count(database).await?;
    let (due, oldest_due) = store::count_due(database).await?;
    metrics::gauge!(OUTBOX_PENDING).set(outbox as f64);
    metrics::gauge!(OUTBOX_OLDEST).set(outbox_oldest);
    metrics::gauge!(WEBHOOK_DUE).set(due as f64);
    metrics::gauge!(WEBHOOK_OLDEST_DUE).set(oldest_due);
    for (state, count) in [(DeliveryState::Pending, pending), (DeliveryState::DeadLettered, dead)] {
        metrics::gauge!(WEBHOOK_DELIVERIES, "state" => state.as_str()).set(count as f64);
    }
    Ok(())
}
