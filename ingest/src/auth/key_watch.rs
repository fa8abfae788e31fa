//! Keeps the keys current, on a connection of its own (D5).

use super::keys::{Keys, MAX_STALENESS};
use crate::store;
use crate::store::api_keys::{self, CHANGED, REVISION};
use common::db::{DatabaseSession, DatabaseSessionConfig, SessionWork, TxError, run_session};
use common::outage::Outage;
use common::periodic::ticks;
use common::settings::DatabaseUrl;
use futures_util::try_join;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often the database is asked for changes, in case a notification is lost, and whether it has been demoted.
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
        let (mut polls, mut is_poll) = (ticks(POLL), true);
        // The last revision that was asked for, and how far the keys were loaded. On a new session all are loaded: another server
        // may have lost the last changes.
        let mut loaded: Option<(i64, (i64, String))> = None;
        loop {
            let asked = Instant::now();
            // In one round trip. Changes are made on another server once this one is demoted. Refusals need many questions.
            let check = async { if is_poll { session.keep_alive().await } else { Ok(()) } };
            let ((), row) = try_join!(check, session.query_one(&revision, &[]))?;
            let (revision, removal): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
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
            is_poll = tokio::select! {
                _ = polls.tick() => true,
                () = session.notified() => false,
                () = self.keys.wanted.notified() => false,
            };
        }
    }

    fn failed(&mut self, error: &TxError) {
        self.outage.report_failure(error);
    }
}
