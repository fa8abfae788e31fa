//! Keeps the keys current, on a connection of its own (D5).

use super::keys::{Keys, MAX_STALENESS};
use crate::store;
use crate::store::api_keys::{self, CHANGED, REVISION};
use common::db::{DatabaseSession, DatabaseSessionConfig, SessionWork, TxError, run_session};
use common::outage::Outage;
use common::periodic::ticks;
use common::settings::DatabaseUrl;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often the database is asked for changes, in case a notification is lost.
const POLL: Duration = Duration::from_millis(400);
/// The wait before a new connection.
const RECONNECT_WAIT: Duration = Duration::from_millis(200);
/// Keys that are read at once.
const ROWS: i64 = 2_000;

struct KeyWatch {
    keys: Arc<Keys>,
    outage: Outage,
}

/// Watches for as long as the program lives.
pub(crate) async fn watch_keys(url: DatabaseUrl, keys: Arc<Keys>) {
    let setup = api_keys::LISTEN;
    let settings = DatabaseSessionConfig { url, name: "ingest_keys", within: MAX_STALENESS, setup };
    let mut watch = KeyWatch { keys, outage: store::outage_of_requests("keys") };
    run_session(&settings, RECONNECT_WAIT, &mut watch, &CancellationToken::new()).await;
}

impl SessionWork for KeyWatch {
    async fn run(&mut self, session: &Arc<DatabaseSession>) -> Result<(), TxError> {
        let (revision, changed) = (session.prepare(REVISION.as_str()).await?, session.prepare(CHANGED.as_str()).await?);
        let mut polls = ticks(POLL);
        // Notes the time of the database, which keys expire by.
        session.keep_alive().await?;
        // The last revision that was asked for, and how far the keys were loaded. On a new session all are loaded: another server
        // may have lost the last changes.
        let mut loaded: Option<(i64, (i64, String))> = None;
        loop {
            let asked = Instant::now();
            let row = session.query_one(&revision, &[]).await?;
            let (revision, removal, is_demoted): (i64, i64, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            if is_demoted {
                // Changes are made on another server.
                session.keep_alive().await?;
            }
            let since = loaded.take().filter(|(asked_for, _)| *asked_for >= removal);
            let is_whole = since.is_none();
            let mut place = since.map_or((i64::MIN, String::new()), |(_, place)| place);
            // Opened while the next ones are read, so that requests go on.
            let mut opened = HashMap::new();
            // One statement may change more keys than are read at once: all of them have one revision.
            let mut is_last = place.0 >= revision;
            while !is_last {
                let read = session.query(&changed, &[&place.0, &place.1, &ROWS]).await?;
                is_last = read.len() < ROWS as usize;
                for row in read {
                    let (place_of_row, key) = api_keys::read(&row)?;
                    place = place_of_row;
                    opened.extend(key.map(|key| self.keys.opened(key)));
                }
            }
            place.0 = place.0.max(revision);
            self.keys.update(opened, is_whole, asked);
            self.outage.report_success();
            loaded = Some((revision, place));
            tokio::select! {
                _ = polls.tick() => session.keep_alive().await?,
                () = session.notified() => {}
                () = self.keys.wanted.notified() => {}
            }
        }
    }

    fn failed(&mut self, error: &TxError) {
        self.outage.report_failure(error);
    }
}
