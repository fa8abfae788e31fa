//! Gauges of the outbox and of deliveries, refreshed in the background instead of at each scrape.

use crate::store::{self, Backlog};
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{OUTBOX_OLDEST, OUTBOX_PENDING, WEBHOOK_DELIVERIES, WEBHOOK_DUE, WEBHOOK_OLDEST_DUE};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Limits the log lines about failures, by what could not be counted.
static FAILED: LogLimit<3> = LogLimit::new();

/// Shortest time between two refreshes.
const REFRESH_INTERVAL_MIN: Duration = Duration::from_secs(2);
/// The pause after a count, as a multiple of its duration: the longer a count takes, the less often it is made.
const PAUSE_FACTOR: u32 = 50;

/// What a gauge counts.
#[derive(Clone, Copy, Debug)]
enum Counted {
    Outbox,
    DueDeliveries,
    Deliveries,
}

/// Refreshes the gauges until `shutdown`.
pub(crate) async fn observe(database: Database, shutdown: CancellationToken) {
    tokio::join!(
        repeat(Counted::Outbox, &database, &shutdown),
        repeat(Counted::DueDeliveries, &database, &shutdown),
        repeat(Counted::Deliveries, &database, &shutdown),
    );
}

async fn repeat(what: Counted, database: &Database, shutdown: &CancellationToken) {
    loop {
        let begun = Instant::now();
        if let Err(error) = count(what, database).await {
            limited!(FAILED[what as usize], warn, %error, ?what, "refreshing gauges failed; they keep their last values");
        }
        let pause = (begun.elapsed() * PAUSE_FACTOR).max(REFRESH_INTERVAL_MIN);
        if shutdown.run_until_cancelled(sleep(pause)).await.is_none() {
            return;
        }
    }
}

async fn count(what: Counted, database: &Database) -> Result<(), TxError> {
    let client = database.client().await?;
    match what {
        Counted::Outbox => set(OUTBOX_PENDING, OUTBOX_OLDEST, store::measure_outbox(&client).await?),
        Counted::DueDeliveries => set(WEBHOOK_DUE, WEBHOOK_OLDEST_DUE, store::measure_due(&client).await?),
        Counted::Deliveries => {
            for (state, count) in store::count_deliveries(&client).await? {
                metrics::gauge!(WEBHOOK_DELIVERIES, "state" => state.as_str()).set(number(count));
            }
        }
    }
    Ok(())
}

fn set(count: &'static str, oldest: &'static str, backlog: Backlog) {
    metrics::gauge!(count).set(number(backlog.count));
    metrics::gauge!(oldest).set(backlog.oldest.as_secs_f64());
}

/// Exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
const fn number(count: i64) -> f64 {
    count as f64
}
