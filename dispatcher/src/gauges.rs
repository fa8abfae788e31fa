//! Gauges of the outbox and of deliveries, refreshed in the background, never at a scrape.

use crate::store::{self, State, Waiting};
use common::clock;
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{OUTBOX_OLDEST, OUTBOX_PENDING, WEBHOOK_DELIVERIES};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Which failures are logged, by what could not be counted.
static FAILED: LogLimit<3> = LogLimit::new();

/// How often each is looked at, at most.
const LOOK: Duration = Duration::from_secs(2);
/// The part of the time that looking may take: one in so many. The more there is to count, the rarer it is counted.
const SHARE: u32 = 50;

/// What is counted.
#[derive(Clone, Copy, Debug)]
enum Counted {
    Outbox,
    OpenDeliveries,
    EndedDeliveries,
}

/// Keeps the gauges true until `shutdown`.
pub(crate) async fn observe(database: Database, shutdown: CancellationToken) {
    tokio::join!(
        repeat(Counted::Outbox, &database, &shutdown),
        repeat(Counted::OpenDeliveries, &database, &shutdown),
        repeat(Counted::EndedDeliveries, &database, &shutdown),
    );
}

async fn repeat(what: Counted, database: &Database, shutdown: &CancellationToken) {
    loop {
        let begun = Instant::now();
        if let Err(error) = count(what, database).await {
            limited!(FAILED[what as usize], warn, %error, ?what, "gauges can't be refreshed");
        }
        let pause = (begun.elapsed() * SHARE).max(LOOK);
        if shutdown.run_until_cancelled(sleep(pause)).await.is_none() {
            return;
        }
    }
}

async fn count(what: Counted, database: &Database) -> Result<(), TxError> {
    let client = database.client().await?;
    match what {
        Counted::Outbox => show_outbox(store::waiting(&client).await?),
        Counted::OpenDeliveries => show(store::count_open(&client).await?),
        Counted::EndedDeliveries => show(store::count_ended(&client).await?),
    }
    Ok(())
}

fn show_outbox(waiting: Waiting) {
    let age = waiting.oldest.map(|oldest| (clock::now() - oldest).to_std().unwrap_or_default());
    metrics::gauge!(OUTBOX_PENDING).set(number(waiting.events));
    metrics::gauge!(OUTBOX_OLDEST).set(age.unwrap_or_default().as_secs_f64());
}

fn show(counts: [(State, i64); 2]) {
    for (state, count) in counts {
        metrics::gauge!(WEBHOOK_DELIVERIES, "state" => state.as_str()).set(number(count));
    }
}

/// Exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
const fn number(count: i64) -> f64 {
    count as f64
}
