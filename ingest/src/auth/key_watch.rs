//! Keeps the key cache current, on a connection of its own (D5).
//!
//! A notification clears the cache at once. In addition the revision is polled several times a second: this makes a lost
//! notification harmless, and each poll confirms the cache's entries. The connection is not from the pool, because look-ups
//! of unknown keys may use up the pool.

use super::key_cache::{KeyCache, MAX_STALENESS};
use crate::store;
use crate::store::key_revision;
use common::db::{DatabaseSession, DatabaseSessionConfig, SessionWork, TxError, run_session};
use common::outage::Outage;
use common::retry::RetryWaits;
use common::settings::DatabaseUrl;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// How often the revision is polled.
const POLL: Duration = Duration::from_millis(400);
/// After so many polls it checks that the server has not been demoted: changes are made on another one then.
const POLLS_BETWEEN_CHECKS: u32 = 5;
/// The waits before a new connection.
const RECONNECT_WAITS: RetryWaits = RetryWaits::every(Duration::from_millis(200));
/// Notification channel of [`key_revision::LISTEN`].
const CHANNEL: &str = "connect_keys";

/// Confirms and clears the cache on a session.
struct KeyWatch {
    cache: Arc<KeyCache>,
    outage: Outage,
}

/// Watches for as long as the program lives.
pub(crate) async fn watch_keys(url: DatabaseUrl, cache: Arc<KeyCache>) {
    let setup = key_revision::LISTEN;
    let settings = DatabaseSessionConfig { url, name: "ingest_key_watch", within: MAX_STALENESS, setup };
    let mut watch = KeyWatch { cache, outage: store::outage_of_background("key watch") };
    run_session(&settings, RECONNECT_WAITS, &mut watch, &CancellationToken::new()).await;
}

impl SessionWork for KeyWatch {
    async fn run(&mut self, session: &Arc<DatabaseSession>) -> Result<(), TxError> {
        tokio::select! {
            // In this order, so that a notification clears the cache before a later poll confirms it.
            biased;
            never = clear_when_notified(session, &self.cache) => match never {},
            polled = poll(session, &self.cache, &self.outage) => polled.map(|never| match never {}),
        }
    }

    fn failed(&mut self, error: &TxError) {
        self.outage.report_failure(error);
    }
}

async fn clear_when_notified(session: &DatabaseSession, cache: &KeyCache) -> Infallible {
    loop {
        session.notified().await;
        if session.take_notification(CHANNEL) {
            cache.clear();
        }
    }
}

async fn poll(session: &DatabaseSession, cache: &KeyCache, outage: &Outage) -> Result<Infallible, TxError> {
    let statement = session.prepare(key_revision::READ.as_str()).await?;
    let mut next = interval(POLL);
    let mut polls = 0_u32;
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        next.tick().await;
        // The row confirms the state at the time of the query, not at the time of its response.
        let asked = Instant::now();
        let row = session.query_one(&statement, &[]).await?;
        cache.confirm(row.try_get(0)?, asked);
        outage.report_success();
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(POLLS_BETWEEN_CHECKS) {
            session.keep_alive().await?;
        }
    }
}
