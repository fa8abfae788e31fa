//! Erasing a person (D32), in steps that are committed one by one, so that none holds its locks for long.
//!
//! The first remembers the hashes of the identities and the receipt: from then on events that are older than the erasure are refused,
//! which makes it safe to remove the ledger's entries. Then the rows that may be many are deleted, and those that were written
//! meanwhile, so that the steps under the lock find little. What units of work change is deleted under the lock that excludes them,
//! leads in portions, and at last the client: a unit that began before has committed what it knew of the person, which is deleted as
//! well, and one that begins afterwards finds nobody. An erasure that was interrupted is continued by the next one, as long as the
//! client exists. Dead letters follow; another run finds those that appear later.

use super::dead_letters::{self, MessageMatcher};
use super::{Person, PersonParameters, parse};
use crate::audit::{Actor, AuditAction, record, record_before};
use crate::store::erasures::{self, StoredErasure};
use crate::store::people;
use crate::store::person_tables::{self, PersonTable};
use crate::{AdminError, Observer, secrets, transact};
use chrono::{DateTime, TimeDelta, Utc};
use common::broker::{OperatorConnection, OperatorConnectionError};
use common::clock;
use common::erasure::{ERASURE_KEY_BINDING, ErasureKey};
use common::model::{ClientId, TenantId};
use common::sealed::MasterKeys;
use common::settings::BrokerSettings;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tokio_postgres::{Client, GenericClient, Transaction};
use uuid::Uuid;

const DEAD_LETTERS: &str = "deadLetters";
const ADVISOR_ACTIONS: &str = "advisorActions";
/// The largest difference of the clocks of two servers of the database. Rows that are committed after the lock was had carry no
/// earlier time than that, because a unit of work takes it from the database after it has shared the lock.
const CLOCKS: TimeDelta = TimeDelta::minutes(2);

/// Numbers of rows, by the name of their list.
type Removed = BTreeMap<&'static str, u64>;

/// What was erased. It is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The id that the client had.
    pub client_id: ClientId,
    /// By the clock of the database. Events that occurred until then are refused.
    #[serde(serialize_with = "clock::serialize")]
    pub erased_at: DateTime<Utc>,
    /// Removed rows, as an export names them, and dead letters; of deliveries those that were dropped.
    pub removed: BTreeMap<String, u64>,
}

/// Largest number of keys of each kind that a step without the tenant's lock deletes, and of leads that one with it deletes.
const STEP: usize = 2_000;
const LEADS: usize = 500;
/// The shortest wait between two steps with the lock: longer than workers wait until they try a locked tenant again.
const PAUSE: Duration = Duration::from_millis(150);

/// Erases a client of the tenant with that slug: the rows first, for which no broker is needed, and then the dead letters. If the
/// client was erased before, removes dead letters that have appeared since. Returns the receipt.
pub async fn erase(
    client: &mut Client, actor: &Actor, master_keys: &MasterKeys, broker: &BrokerSettings, (slug, id): (&str, &str),
    observer: &mut impl Observer,
) -> Result<Receipt, AdminError> {
    secrets::verify_master_keys(client, master_keys).await?;
    let (tenant, id) = parse(&*client, slug, id).await?;
    let is_gone = people::find(&*client, tenant, id).await?.is_none();
    if is_gone && erasures::find(&*client, tenant, id).await?.is_some() {
        record_before(client, actor, AuditAction::EraseClient, &id.to_string(), Some(tenant)).await?;
    } else {
        erase_rows(client, actor, master_keys, (slug, tenant), id).await?;
    }
    let stored = erasures::find(&*client, tenant, id).await?.ok_or_else(receipt_is_missing)?;
    let no_key = || AdminError::Unreadable("the key of erased identities is missing".to_owned());
    let key = existing_key(&*client, master_keys).await?.ok_or_else(no_key)?;
    let hashes = erasures::hashes_of(client, tenant, id).await?;
    let matcher = MessageMatcher::new((tenant, slug), key, hashes, &stored.record_ids);
    let remove = async |tx: &Transaction<'_>| {
        let before = begin_step(tx, tenant, id).await?;
        let (numbers, _) = dead_letters::waiting_actions(tx, &matcher).await?;
        let removed = Removed::from([(ADVISOR_ACTIONS, people::erase_advisor_actions(tx, tenant, &numbers).await?)]);
        count(tx, (tenant, id), &before, &removed, &[]).await
    };
    transact(client, remove).await?;
    let removed = remove_dead_letters(broker, &matcher, observer).await;
    let removed = removed.map_err(|source| AdminError::ErasureUnfinished { client: id.to_string(), source })?;
    let removed = Removed::from([(DEAD_LETTERS, removed)]);
    let add = async |tx: &Transaction<'_>| {
        let before = begin_step(tx, tenant, id).await?;
        count(tx, (tenant, id), &before, &removed, &[]).await?;
        erasures::find(tx, tenant, id).await?.ok_or_else(receipt_is_missing)
    };
    let StoredErasure { erased_at, removed, .. } = transact(client, add).await?;
    Ok(Receipt { client_id: id, erased_at, removed: counts(&removed)? })
}

async fn remove_dead_letters(
    broker: &BrokerSettings, matcher: &MessageMatcher, observer: &mut impl Observer,
) -> Result<u64, OperatorConnectionError> {
    let connection = OperatorConnection::open(broker, "connectctl").await?;
    let removed = dead_letters::remove(&connection, matcher, observer).await?;
    connection.close().await?;
    Ok(removed)
}

async fn erase_rows(
    client: &mut Client, actor: &Actor, master_keys: &MasterKeys, (slug, tenant): (&str, TenantId), id: ClientId,
) -> Result<(), AdminError> {
    let announce = async |tx: &Transaction<'_>| {
        let erased_at = erasures::lock(tx, tenant).await?;
        let person = Person::find(tx, (slug, tenant), id, erased_at, 0).await?;
        let hashes = person.hashes(&key(tx, master_keys).await?, erased_at);
        erasures::add(tx, (tenant, id), erased_at, &person.record_ids(), &hashes).await?;
        record(tx, actor, AuditAction::EraseClient, &id.to_string(), Some(tenant)).await?;
        Ok((erased_at, person))
    };
    let (erased_at, mut known) = transact(client, announce).await?;
    let (mut since, first) = (DateTime::UNIX_EPOCH, known.created_at - TimeDelta::hours(1));
    for is_second in [false, true] {
        let lock = async |tx: &Transaction<'_>| erasures::lock(tx, tenant).await;
        let locked_at = if is_second { transact(client, lock).await? } else { erased_at };
        people::find_records(&*client, &mut known, since, usize::MAX).await?;
        people::find_since(&*client, &mut known, since.max(first)).await?;
        for step in known.steps(STEP) {
            let delete = async |tx: &Transaction<'_>| {
                let (mut step, before) = (step.clone(), begin_step(tx, tenant, id).await?);
                let removed = remove_streams(tx, &mut step).await?;
                count(tx, (tenant, id), &before, &removed, &step.record_ids()).await
            };
            transact(client, delete).await?;
        }
        (known.account_entries, known.notifications, known.outbox) = Default::default();
        since = locked_at - CLOCKS;
    }
    let delete = async |tx: &Transaction<'_>| {
        let before = begin_step(tx, tenant, id).await?;
        let removed = people::delete_messages(tx, &known, STEP).await?;
        count(tx, (tenant, id), &before, &Removed::from([("inboxMessages", removed)]), &[]).await?;
        Ok(removed)
    };
    while transact(client, delete).await? > 0 {}
    let delete = async |tx: &Transaction<'_>| {
        let erased_at = erasures::lock(tx, tenant).await?;
        let before = begin_step(tx, tenant, id).await?;
        if people::find(tx, tenant, id).await?.is_none() {
            // Another command has ended this erasure.
            return Ok(true);
        }
        let mut person = Person::find(tx, (slug, tenant), id, since, LEADS).await?;
        let is_last = person.leads.len() < LEADS;
        if is_last {
            people::find_since(tx, &mut person, since).await?;
            // Responses go together with the signatures that would be given them. Without one a repeated signature is refused.
            person.idempotency_keys.extend(known.idempotency_keys.iter().cloned());
        } else {
            people::find_notifications(tx, &mut person, since).await?;
        }
        let mut removed = remove_streams(tx, &mut person).await?;
        let which = |table: &PersonTable| !table.is_stream() && (is_last || table.is_of_leads());
        remove_rows(tx, &person, which, &mut removed).await?;
        count(tx, (tenant, id), &before, &removed, &person.record_ids()).await?;
        if is_last {
            // Last: ingest waits for such an entry when its request is repeated.
            people::forget_idempotency_keys(tx, &person).await?;
            let hashes = person.hashes(&key(tx, master_keys).await?, erased_at);
            erasures::add(tx, (tenant, id), erased_at, &[], &hashes).await?;
        }
        Ok(is_last)
    };
    loop {
        let begun = Instant::now();
        if transact(client, delete).await? {
            return Ok(());
        }
        sleep(begun.elapsed().max(PAUSE)).await;
    }
}

/// The counts of the receipt, locked until the step ends: two commands that erase the same client take turns.
async fn begin_step(tx: &Transaction<'_>, tenant: TenantId, id: ClientId) -> Result<String, AdminError> {
    erasures::lock_counts(tx, tenant, id).await?.ok_or_else(receipt_is_missing)
}

/// Deletes what may be many rows of a person, and drops their webhooks. Returns the number of rows by list.
async fn remove_streams(tx: &Transaction<'_>, person: &mut Person) -> Result<Removed, AdminError> {
    people::forget_pending(tx, person).await?;
    people::find_deliveries(tx, person).await?;
    let mut removed = Removed::from([("deliveries", people::drop_deliveries(tx, person).await?)]);
    remove_rows(tx, person, PersonTable::is_stream, &mut removed).await?;
    Ok(removed)
}

/// Deletes the rows of a person in some tables, and adds the number of each.
async fn remove_rows(
    tx: &Transaction<'_>, person: &Person, which: impl Fn(&PersonTable) -> bool, removed: &mut Removed,
) -> Result<(), AdminError> {
    let parameters = PersonParameters::of(person);
    for table in person_tables::TABLES.iter().filter(|table| which(table)) {
        let rows = person_tables::erase(tx, table, &parameters.by(table.keys)).await?;
        *removed.entry(table.list).or_default() += rows;
    }
    Ok(())
}

/// Adds the rows that a step has removed, and ids by which later dead letters are recognized, to the receipt.
async fn count(
    tx: &Transaction<'_>, (tenant, id): (TenantId, ClientId), removed_before: &str, removed: &Removed,
    record_ids: &[Uuid],
) -> Result<(), AdminError> {
    let mut total = counts(removed_before)?;
    for (list, rows) in removed {
        *total.entry((*list).to_owned()).or_default() += rows;
    }
    erasures::extend(tx, (tenant, id), &json(&total)?, record_ids).await
}

fn receipt_is_missing() -> AdminError {
    AdminError::Unreadable("the receipt of the erasure is missing".to_owned())
}

/// The key of the hashes; a new one for the first erasure.
async fn key(tx: &Transaction<'_>, master_keys: &MasterKeys) -> Result<ErasureKey, AdminError> {
    if let Some(key) = existing_key(tx, master_keys).await? {
        return Ok(key);
    }
    let new = ErasureKey::text_of(secrets::random()?);
    erasures::add_key(tx, &secrets::seal(master_keys, &new, ERASURE_KEY_BINDING)?).await?;
    // Read again, because a concurrent erasure of another tenant may have stored its key first.
    let missing = || AdminError::Unreadable("the key of erased identities is missing".to_owned());
    existing_key(tx, master_keys).await?.ok_or_else(missing)
}

async fn existing_key(on: &impl GenericClient, master_keys: &MasterKeys) -> Result<Option<ErasureKey>, AdminError> {
    let Some(sealed) = erasures::key(on).await? else { return Ok(None) };
    let opened = master_keys.open(&sealed, ERASURE_KEY_BINDING);
    let key = opened.ok().as_ref().and_then(ErasureKey::parse);
    let unreadable = || AdminError::Unreadable("the key of erased identities cannot be opened".to_owned());
    key.ok_or_else(unreadable).map(Some)
}

fn json(counts: &impl Serialize) -> Result<String, AdminError> {
    serde_json::to_string(counts).map_err(|error| AdminError::Unreadable(error.to_string()))
}

fn counts(json: &str) -> Result<BTreeMap<String, u64>, AdminError> {
    serde_json::from_str(json).map_err(|error| AdminError::Unreadable(error.to_string()))
}
