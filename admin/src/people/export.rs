//! Everything that is stored of a person, as one document.

use super::dead_letters::{self, MessageMatcher};
use super::{Person, PersonParameters, parse};
use crate::audit::{Actor, AuditAction, record};
use crate::store::{people, person_tables};
use crate::transact;
use crate::{AdminError, Result, secrets};
use chrono::{DateTime, TimeDelta, Utc};
use common::broker::OperatorConnection;
use common::clock;
use common::erasure::ErasureKey;
use common::model::ClientId;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use tokio_postgres::{Client, Transaction};

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
    client: &mut Client,
    actor: &Actor,
    broker: &OperatorConnection,
    slug: &str,
    id: &str,
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
    let (records, person) = transact(client, read).await?;
    // Any key will do, as the hashes are not kept.
    let key = ErasureKey::parse(&ErasureKey::text_of(secrets::random()?));
    let key = key.ok_or_else(|| AdminError::Unreadable("a new key cannot be read".to_owned()))?;
    let exported_at = clock::now();
    let hashes = person.hashes(&key, exported_at);
    let matcher = MessageMatcher::new((tenant, slug), key, hashes, &person.record_ids());
    let dead_letters = dead_letters::find(broker, &matcher).await?;
    let tenant = slug.to_owned();
    Ok(PersonExport { client_id: id, tenant, exported_at, records, dead_letters })
}
