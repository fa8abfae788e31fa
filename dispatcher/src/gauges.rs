//! Gauges of the outbox and of deliveries, refreshed in the background instead of at each scrape.

use crate::store::{self, OutboxBacklog};
use common::clock;
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{OUTBOX_OLDEST, OUTBOX_PENDING, WEBHOOK_DELIVERIES};
use common::model::DeliveryState;
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
    /// Pending, parked and dead-lettered ones.
    UnsettledDeliveries,
    /// Delivered and dropped ones.
    SettledDeliveries,
}

/// Refreshes the gauges until `shutdown`.
pub(crate) async fn observe(database: Database, shutdown: CancellationToken) {
    tokio::join!(
        repeat(Counted::Outbox, &database, &shutdown),
        repeat(Counted::UnsettledDeliveries, &database, &shutdown),
        repeat(Counted::SettledDeliveries, &database, &shutdown),
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
        Counted::Outbox => set_outbox_gauges(store::measure_backlog(&client).await?),
        Counted::UnsettledDeliveries => set_delivery_gauges(store::count_unsettled(&client).await?),
        Counted::SettledDeliveries => set_delivery_gauges(store::count_settled(&client).await?),
    }
    Ok(())
}

fn set_outbox_gauges(waiting: OutboxBacklog) {
    let age = waiting.oldest.map(|oldest| (clock::now() - oldest).to_std().unwrap_or_default());
    metrics::gauge!(OUTBOX_PENDING).set(number(waiting.events));
    metrics::gauge!(OUTBOX_OLDEST).set(age.unwrap_or_default().as_secs_f64());
}

fn set_delivery_gauges(counts: [(DeliveryState, i64); 2]) {
    for (state, count) in counts {
        metrics::gauge!(WEBHOOK_DELIVERIES, "state" => state.as_str()).set(number(count));
    }
}

/// Exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
const fn number(count: i64) -> f64 {
    count as f64
}
