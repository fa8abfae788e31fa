//! Keeps the key cache current, on a connection of its own (D5).
//!
//! A notification clears the cache at once. Besides, the revision is asked for several times a second, which makes a
//! lost notification harmless and is what the cache's trust rests on. Its own connection, because look-ups of unknown
//! keys may take all of the pool.

use super::key_cache::{KeyCache, TRUST};
use crate::outage::Outage;
use crate::store::key_revision;
use common::db::{self, Connected};
use common::settings::DatabaseUrl;
use futures_util::future::poll_fn;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_postgres::{AsyncMessage, Client, Config};

/// How often the revision is asked for.
const POLL: Duration = Duration::from_millis(400);
/// The wait before a new connection.
const RECONNECT: Duration = Duration::from_millis(200);

/// Why the watch has to begin anew.
#[derive(Debug, Error)]
enum Lost {
    #[error("{0}")]
    NotConnected(#[from] db::ConnectError),
    #[error("{0}")]
    Failed(#[from] tokio_postgres::Error),
    #[error("no answer in time")]
    Late(#[from] tokio::time::error::Elapsed),
}

/// Watches for as long as the program lives.
pub async fn watch_keys(url: DatabaseUrl, cache: Arc<KeyCache>) {
    let mut config = url.config();
    config.application_name("ingest_key_watch").tcp_user_timeout(Duration::from_secs(2));
    let outage = Outage::new("key watch");
    loop {
        let Err(lost) = watch(&url, &config, &cache, &outage).await;
        outage.failed(&lost);
        sleep(RECONNECT).await;
    }
}

async fn watch(
    url: &DatabaseUrl,
    config: &Config,
    cache: &Arc<KeyCache>,
    outage: &Outage,
) -> Result<Infallible, Lost> {
    let (client, connection) = db::connect(url, config, TRUST).await?;
    let _driver = AbortOnDrop(tokio::spawn(drive(connection, Arc::clone(cache))));
    timeout(TRUST, client.batch_execute(key_revision::LISTEN)).await??;
    poll(&client, cache, outage).await
}

async fn poll(client: &Client, cache: &KeyCache, outage: &Outage) -> Result<Infallible, Lost> {
    let statement = timeout(TRUST, client.prepare(key_revision::READ)).await??;
    let mut next = interval(POLL);
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        next.tick().await;
        // What is confirmed is what held when it was asked, not when the answer came.
        let asked = Instant::now();
        let row = timeout(TRUST, client.query_one(&statement, &[])).await??;
        cache.confirm(row.try_get(0)?, asked);
        outage.worked();
    }
}

/// Moves the connection's bytes; ends with it, upon which the client's calls fail.
async fn drive(mut connection: Connected, cache: Arc<KeyCache>) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if matches!(message, AsyncMessage::Notification(_)) {
            cache.clear();
        }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
