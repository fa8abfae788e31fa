//! Gauges of the outbox and of deliveries, refreshed in the background, never at a scrape.

use crate::store::{self, State};
use common::clock;
use common::db::{Database, TxError};
use common::metrics::{OUTBOX_OLDEST, OUTBOX_PENDING, WEBHOOK_DELIVERIES};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// How often the outbox is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// Counting deliveries reads all of them. It may take this part of the time.
const SHARE_OF_COUNTING: u32 = 50;

/// Keeps the gauges true until `shutdown`.
pub(crate) async fn observe(database: Database, shutdown: CancellationToken) {
    let mut count_at = Instant::now();
    loop {
        if let Err(error) = observe_outbox(&database).await {
            tracing::debug!(%error, "can't look at the outbox");
        }
        let now = Instant::now();
        if now >= count_at {
            if let Err(error) = observe_deliveries(&database).await {
                tracing::debug!(%error, "can't count deliveries");
            }
            count_at = now + (now.elapsed() * SHARE_OF_COUNTING).max(LOOK);
        }
        if shutdown.run_until_cancelled(sleep(LOOK)).await.is_none() {
            return;
        }
    }
}

async fn observe_outbox(database: &Database) -> Result<(), TxError> {
    let waiting = store::waiting(&database.client().await?).await?;
    let age = waiting.oldest.map(|oldest| (clock::now() - oldest).to_std().unwrap_or_default());
    metrics::gauge!(OUTBOX_PENDING).set(number(waiting.events));
    metrics::gauge!(OUTBOX_OLDEST).set(age.unwrap_or_default().as_secs_f64());
    Ok(())
}

async fn observe_deliveries(database: &Database) -> Result<(), TxError> {
    let counts = store::counts(&database.client().await?).await?;
    for state in State::ALL {
        let count = counts.iter().find(|(counted, _)| *counted == state).map_or(0, |(_, count)| *count);
        metrics::gauge!(WEBHOOK_DELIVERIES, "state" => state.as_str()).set(number(count));
    }
    Ok(())
}

/// Exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
const fn number(count: i64) -> f64 {
    count as f64
}
