//! When the secrets of keys were last used, for the operator who wants to revoke one.
//!
//! A request only notes the use in memory, at most once a minute for each secret. Once a minute the notes are written
//! together. A use that is not written because the process was killed, or because more than [`NOTED_MAX`] secrets were used
//! within a minute, is noted again with the next request of a later minute.

use super::key::{ApiKey, SecretKind};
use crate::store::api_key_uses::KeyUse;
use crate::store::{self, api_key_uses};
use chrono::{DateTime, Utc};
use common::db::{Client, Database, TxError};
use common::model::{KeyPrefix, TenantId};
use common::outage::Outage;
use common::periodic::ticks;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often the notes are written.
const EVERY: Duration = Duration::from_mins(1);
/// How long one statement may take.
const WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of secrets whose use is noted at once; about 100 bytes each.
const NOTED_MAX: usize = 20_000;
/// Maximum number of uses written by one statement.
const WRITTEN_MAX: usize = 1_000;

/// A secret of a key: tenant, prefix, and number of the secret.
type SecretName = (TenantId, KeyPrefix, i32);

/// The uses that are not written yet. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct KeyUses(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    db: Database,
    outage: Outage,
    noted: Mutex<BTreeMap<SecretName, DateTime<Utc>>>,
}

impl KeyUses {
    /// Uses that [`write`](Self::write) writes to `db`.
    pub(crate) fn new(db: Database) -> Self {
        Self(Arc::new(Shared { db, outage: store::outage_of_background("key uses"), noted: Mutex::default() }))
    }

    /// Notes that a request with a valid signature of this secret arrived at `now`.
    pub(super) fn note(&self, key: &ApiKey, secret: SecretKind, now: DateTime<Utc>) {
        if key.noted_minutes.is_first(secret, now) {
            let name = (key.caller.tenant_id, key.caller.key.clone(), key.number_of(secret));
            insert(&mut self.0.noted.lock(), name, now);
        }
    }

    /// Writes the notes once a minute, until the program ends.
    pub(crate) async fn write_regularly(self) {
        let mut ticks = ticks(EVERY);
        loop {
            ticks.tick().await;
            self.write().await;
        }
    }

    /// Writes the notes. Those that cannot be written are kept for the next time.
    pub(crate) async fn write(&self) {
        let noted = std::mem::take(&mut *self.0.noted.lock());
        let uses: Vec<KeyUse> = noted
            .into_iter()
            .map(|((tenant, key, secret_number), at)| KeyUse { tenant, key, secret_number, at })
            .collect();
        for chunk in uses.chunks(WRITTEN_MAX) {
            let deadline = Instant::now() + WITHIN;
            let recorded = async |client: &Client| api_key_uses::record(client, chunk).await;
            match store::run_until(&self.0.db, deadline, recorded).await {
                Ok(()) => self.0.outage.report_success(),
                Err(error) => self.keep(chunk, &error),
            }
        }
    }

    fn keep(&self, uses: &[KeyUse], error: &TxError) {
        self.0.outage.report_failure(error);
        let mut noted = self.0.noted.lock();
        for KeyUse { tenant, key, secret_number, at } in uses {
            let name = (*tenant, key.clone(), *secret_number);
            if !noted.contains_key(&name) {
                insert(&mut noted, name, *at);
            }
        }
    }
}

fn insert(noted: &mut BTreeMap<SecretName, DateTime<Utc>>, name: SecretName, at: DateTime<Utc>) {
    if noted.len() < NOTED_MAX || noted.contains_key(&name) {
        noted.insert(name, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::unused_database;
    use chrono::TimeDelta;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_767_225_600 + seconds, 0).unwrap()
    }

    fn noted(uses: &KeyUses) -> Vec<(i32, DateTime<Utc>)> {
        uses.0.noted.lock().iter().map(|((_, _, number), at)| (*number, *at)).collect()
    }

    #[tokio::test]
    async fn a_use_is_noted_once_a_minute_for_each_secret() {
        let (uses, key) = (KeyUses::new(unused_database(1)), ApiKey::for_tests());
        for seconds in [0, 1, 59] {
            uses.note(&key, SecretKind::Current, at(seconds));
        }
        assert_eq!(noted(&uses), [(1, at(0))]);
        uses.note(&key, SecretKind::Old, at(30));
        uses.note(&key, SecretKind::Current, at(60));
        assert_eq!(noted(&uses), [(0, at(30)), (1, at(60))]);
    }

    #[tokio::test]
    async fn uses_that_cannot_be_written_are_kept_unless_there_are_later_ones() {
        let (uses, key) = (KeyUses::new(unused_database(1)), ApiKey::for_tests());
        let (tenant, prefix) = (key.caller.tenant_id, key.caller.key.clone());
        let used = |secret_number| KeyUse { tenant, key: prefix.clone(), secret_number, at: at(0) };
        uses.note(&key, SecretKind::Current, at(60));
        uses.keep(&[used(1), used(7)], &TxError::Unavailable("no response".to_owned()));
        assert_eq!(noted(&uses), [(1, at(60)), (7, at(0))]);
    }

    #[test]
    fn the_notes_are_bounded() {
        let (mut notes, key) = (BTreeMap::new(), ApiKey::for_tests());
        let name = |number| (key.caller.tenant_id, key.caller.key.clone(), number);
        for number in 0..=i32::try_from(NOTED_MAX).unwrap() {
            insert(&mut notes, name(number), at(0));
        }
        assert_eq!(notes.len(), NOTED_MAX);
        insert(&mut notes, name(0), at(0) + TimeDelta::minutes(1));
        assert_eq!(notes[&name(0)], at(60), "a noted secret is noted again");
    }
}
