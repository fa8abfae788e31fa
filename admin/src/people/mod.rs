//! Personal data: what is stored of a client, as one document, and its erasure (D32).
//!
//! Both go by the same list of tables, [`crate::store::person_tables`]. The rows of a person are found by ids: of the client, their
//! leads, trips, events and deliveries.

mod dead_letters;
mod erase;

pub(crate) use crate::store::people::{OwnIdentity, Person};
pub use erase::{Receipt, erase};

use crate::audit::{Actor, AuditAction, record};
use crate::store::people::FoundPerson;
use crate::store::person_tables::PersonKeys;
use crate::store::{people, person_tables};
use crate::{AdminError, Result, secrets, tenants, transact};
use chrono::{DateTime, TimeDelta, Utc};
use common::broker::OperatorConnection;
use common::clock;
use common::erasure::{ErasureKey, IdentityHash, PersonIdentity};
use common::model::{ClientId, TenantId};
use dead_letters::MessageMatcher;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Transaction};
use uuid::Uuid;

/// Keyed hashes of the identities of a person, each with the last time at which it meant that person.
type IdentityHashes = BTreeMap<IdentityHash, DateTime<Utc>>;

impl Person {
    /// The client with that id, with the records that are found by ids: of timelines those since `from`, and at most so many leads
    /// with what belongs to them. Fails if it is a company's account.
    async fn find(
        on: &impl GenericClient, (slug, tenant): (&str, TenantId), client: ClientId, from: DateTime<Utc>,
        max_leads: usize,
    ) -> Result<Self> {
        let found = people::find(on, tenant, client).await?;
        let not_found = || AdminError::ClientNotFound { client: client.to_string(), tenant: slug.to_owned() };
        let FoundPerson { is_company, mut identities, account, created_at } = found.ok_or_else(not_found)?;
        if is_company {
            return Err(AdminError::ClientIsCompany(client.to_string()));
        }
        identities.extend(people::former_identities(on, tenant, client).await?);
        let accounts = account.into_iter().collect();
        let mut person = Self { identities, accounts, ..Self::new(tenant, client, created_at) };
        people::find_records(on, &mut person, from, max_leads).await?;
        Ok(person)
    }

    /// A person of whom nothing else is known.
    const fn new(tenant: TenantId, client: ClientId, created_at: DateTime<Utc>) -> Self {
        Self {
            tenant,
            client,
            identities: Vec::new(),
            accounts: Vec::new(),
            created_at,
            leads: Vec::new(),
            trips: Vec::new(),
            proposals: Vec::new(),
            entries: Vec::new(),
            account_entries: Vec::new(),
            events: Vec::new(),
            notifications: BTreeSet::new(),
            outbox: BTreeSet::new(),
            deliveries: Vec::new(),
            idempotency_keys: BTreeSet::new(),
        }
    }

    /// The keys of the rows that may be many, in parts with at most `size` of each kind.
    fn steps(&self, size: usize) -> impl Iterator<Item = Self> {
        fn part<'a, T: Clone + 'a, C: FromIterator<T>>(
            all: impl IntoIterator<Item = &'a T>, range: &Range<usize>,
        ) -> C {
            all.into_iter().skip(range.start).take(range.len()).cloned().collect()
        }
        let lists = [self.entries.len(), self.account_entries.len(), self.events.len()];
        let sets = [self.notifications.len(), self.outbox.len()];
        let longest = lists.into_iter().chain(sets).max().unwrap_or_default();
        (0..longest).step_by(size).map(move |start| {
            let range = &(start..start + size);
            Self {
                accounts: self.accounts.clone(),
                entries: part(&self.entries, range),
                account_entries: part(&self.account_entries, range),
                events: part(&self.events, range),
                notifications: part(&self.notifications, range),
                outbox: part(&self.outbox, range),
                ..Self::new(self.tenant, self.client, self.created_at)
            }
        })
    }

    /// Their emails, each with the last time at which it was theirs; `None` if nobody else has it.
    pub(crate) fn emails(&self) -> impl Iterator<Item = (&str, Option<DateTime<Utc>>)> {
        self.identities.iter().filter_map(|own| match &own.identity {
            PersonIdentity::Email(email) => Some((email.as_str(), own.until)),
            PersonIdentity::Phone(_) | PersonIdentity::ExternalId(_) => None,
        })
    }

    /// The hashes of the identities, which meant the person until `now` unless another client has one.
    fn hashes(&self, key: &ErasureKey, now: DateTime<Utc>) -> IdentityHashes {
        let mut hashes = IdentityHashes::new();
        for OwnIdentity { identity, until } in &self.identities {
            let until = until.unwrap_or(now);
            let last = hashes.entry(key.hash(self.tenant, identity.as_str())).or_insert(until);
            *last = until.max(*last);
        }
        hashes
    }

    /// API keys and idempotency keys, as two columns.
    pub(crate) fn idempotency_key_columns(&self) -> (Vec<&str>, Vec<&str>) {
        self.idempotency_keys.iter().map(|(prefix, key)| (prefix.as_str(), key.as_str())).unzip()
    }

    /// The ids of the person's records by which messages about them are recognized.
    fn record_ids(&self) -> Vec<Uuid> {
        [&[self.client.0], &self.leads[..], &self.trips, &self.deliveries].concat()
    }
}

/// The parameters of the statements of [`crate::store::person_tables`].
struct PersonParameters<'p> {
    person: &'p Person,
    /// Emails that no other client has.
    emails: Vec<&'p str>,
    notifications: Vec<Uuid>,
    outbox: Vec<Uuid>,
    key_prefixes: Vec<&'p str>,
    idempotency_keys: Vec<&'p str>,
}

impl<'p> PersonParameters<'p> {
    fn of(person: &'p Person) -> Self {
        let (key_prefixes, idempotency_keys) = person.idempotency_key_columns();
        Self {
            person,
            emails: person.emails().filter(|(_, until)| until.is_none()).map(|(email, _)| email).collect(),
            notifications: person.notifications.iter().copied().collect(),
            outbox: person.outbox.iter().copied().collect(),
            key_prefixes,
            idempotency_keys,
        }
    }

    fn by(&self, keys: PersonKeys) -> Vec<&(dyn ToSql + Sync)> {
        let Person {
            tenant,
            client,
            accounts,
            leads,
            trips,
            proposals,
            entries,
            account_entries,
            events,
            deliveries,
            ..
        } = self.person;
        let (tenant, client) = (&tenant.0, &client.0);
        match keys {
            PersonKeys::Client => vec![tenant, client],
            PersonKeys::Leads => vec![tenant, leads],
            PersonKeys::Trips => vec![tenant, trips],
            PersonKeys::Proposals => vec![tenant, proposals],
            PersonKeys::Events => vec![tenant, events],
            PersonKeys::Entries => vec![tenant, client, entries],
            PersonKeys::AccountEntries => vec![tenant, accounts, account_entries],
            PersonKeys::AccountContacts => vec![tenant, accounts, client, &self.emails],
            PersonKeys::Notifications => vec![tenant, &self.notifications],
            PersonKeys::Outbox => vec![tenant, &self.outbox],
            PersonKeys::Deliveries => vec![tenant, deliveries],
            PersonKeys::IdempotencyKeys => vec![tenant, &self.key_prefixes, &self.idempotency_keys],
        }
    }
}

/// The tenant of a slug, and the id of a client. An id of another form counts as unknown.
async fn parse(on: &impl GenericClient, slug: &str, id: &str) -> Result<(TenantId, ClientId)> {
    let tenant = tenants::find(on, slug).await?;
    let not_found = || AdminError::ClientNotFound { client: id.to_owned(), tenant: slug.to_owned() };
    Ok((tenant, ClientId::parse(id).ok_or_else(not_found)?))
}

/// What is stored of a person.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonExport {
    /// The client's id.
    pub client_id: ClientId,
    /// Slug of the tenant.
    pub tenant: String,
    /// When it was read.
    #[serde(serialize_with = "clock::serialize")]
    pub exported_at: DateTime<Utc>,
    /// The rows of each table, as they are stored.
    pub records: BTreeMap<&'static str, Vec<Box<RawValue>>>,
    /// Messages of dead-letter queues that name the person.
    pub dead_letters: Vec<StoredDeadLetter>,
}

/// A dead letter that names a person.
#[derive(Clone, Debug, Serialize)]
pub struct StoredDeadLetter {
    /// The queue that dead-lettered it, without prefix.
    pub queue: &'static str,
    /// Its body; bytes that are not UTF-8 are replaced.
    pub body: String,
}

/// Reads everything that is stored of a client of the tenant with that slug. The access is recorded.
pub async fn export(
    client: &mut Client, actor: &Actor, broker: &OperatorConnection, slug: &str, id: &str,
) -> Result<PersonExport> {
    let (tenant, id) = parse(&*client, slug, id).await?;
    let read = async |tx: &Transaction<'_>| {
        let mut person = Person::find(tx, (slug, tenant), id, DateTime::UNIX_EPOCH, usize::MAX).await?;
        // Ids of events have the time of the machine that wrote them.
        let from = person.created_at - TimeDelta::hours(1);
        people::find_since(tx, &mut person, from).await?;
        people::find_deliveries(tx, &mut person).await?;
        let parameters = PersonParameters::of(&person);
        let mut records = BTreeMap::new();
        for table in person_tables::TABLES {
            records.insert(table.list, person_tables::rows(tx, table, &parameters.by(table.keys)).await?);
        }
        record(tx, actor, AuditAction::ExportClient, &id.to_string(), Some(tenant)).await?;
        Ok((records, person))
    };
    let (mut records, person) = transact(client, read).await?;
    // Any key will do, as the hashes are not kept.
    let key = ErasureKey::parse(&ErasureKey::text_of(secrets::random()?));
    let key = key.ok_or_else(|| AdminError::Unreadable("a new key cannot be read".to_owned()))?;
    let exported_at = clock::now();
    let hashes = person.hashes(&key, exported_at);
    let matcher = MessageMatcher::new((tenant, slug), key, hashes, &person.record_ids());
    let (_, waiting) = dead_letters::waiting_actions(&*client, &matcher).await?;
    if !waiting.is_empty() {
        let body = |body: &Vec<u8>| RawValue::from_string(String::from_utf8_lossy(body).into_owned());
        let bodies: Result<_, serde_json::Error> = waiting.iter().map(body).collect();
        records.insert("advisorActions", bodies.map_err(|error| AdminError::Unreadable(error.to_string()))?);
    }
    let dead_letters = dead_letters::find(broker, &matcher).await?;
    let tenant = slug.to_owned();
    Ok(PersonExport { client_id: id, tenant, exported_at, records, dead_letters })
}
