//! A client as a person: what an export or an erasure reads of them, the keys of the rows that are about them, and what an erasure
//! changes in `deliveries`, `replay_entries` and `advisor_actions`.

use super::{Parameters, all, execute, one, read_row};
use crate::{AdminError, Result};
use chrono::{DateTime, Utc};
use common::broker::Message;
use common::db::Sql;
use common::erasure::PersonIdentity;
use common::model::{ClientId, TenantId};
use std::collections::BTreeSet;
use tokio_postgres::{GenericClient, Row, Transaction};
use uuid::Uuid;

/// An identity that a client has, or had before it was changed.
#[derive(Clone, Debug)]
pub(crate) struct OwnIdentity {
    /// In the form that is compared (D10).
    pub(crate) identity: PersonIdentity<String>,
    /// When the client lost it, if another client has it now.
    pub(crate) until: Option<DateTime<Utc>>,
}

/// A client, and the keys of all rows that are about them.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) tenant: TenantId,
    pub(crate) client: ClientId,
    pub(crate) identities: Vec<OwnIdentity>,
    /// The accounts of companies that they belong to, or belonged to by an identity.
    pub(crate) accounts: Vec<Uuid>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) leads: Vec<Uuid>,
    pub(crate) trips: Vec<Uuid>,
    pub(crate) proposals: Vec<Uuid>,
    pub(crate) entries: Vec<Uuid>,
    /// Entries about them on the timelines of `accounts`.
    pub(crate) account_entries: Vec<Uuid>,
    /// The event ids of all these entries.
    pub(crate) events: Vec<String>,
    pub(crate) notifications: BTreeSet<Uuid>,
    /// Outbound events.
    pub(crate) outbox: BTreeSet<Uuid>,
    pub(crate) deliveries: Vec<Uuid>,
    /// API keys, each with an idempotency key.
    pub(crate) idempotency_keys: BTreeSet<(String, String)>,
}

impl OwnIdentity {
    /// One that the client has.
    pub(crate) const fn current(identity: PersonIdentity<String>) -> Self {
        Self { identity, until: None }
    }
}

common::statements! {
    const FIND = "-- people.find
    SELECT client_type = 'company' AS is_company, email_key, phone_digits, external_id, account_id, created_at
    FROM clients WHERE tenant_id = $1 AND client_id = $2";

    /// Another client can have an identity by now. Then it was the person's own until they lost it.
    const FORMER_IDENTITIES = "-- people.former_identities
    SELECT f.kind, f.identity, CASE WHEN EXISTS (
        SELECT FROM clients c
        WHERE f.kind = 'email' AND c.email_key = f.identity AND c.tenant_id::text = f.tenant_id::text
          AND c.client_id <> f.client_id
        UNION ALL
        SELECT FROM clients c
        WHERE f.kind = 'phone' AND c.phone_digits = f.identity AND c.tenant_id::text = f.tenant_id::text
          AND c.client_id <> f.client_id
        UNION ALL
        SELECT FROM clients c
        WHERE f.kind = 'external_id' AND c.external_id = f.identity AND c.tenant_id::text = f.tenant_id::text
          AND c.client_id <> f.client_id
    ) THEN f.replaced_at END AS until
    FROM former_identities f WHERE f.tenant_id = $1 AND f.client_id = $2";

    const LEADS = "-- people.leads
    SELECT lead_id FROM leads WHERE client_id = $2 AND tenant_id IS NOT DISTINCT FROM $1 LIMIT $3";

    const TRIPS = "-- people.trips
    SELECT trip_id FROM trips WHERE lead_id = ANY($2) AND tenant_id::text = ($1::uuid)::text";

    const PROPOSALS = "-- people.proposals
    SELECT proposal_id FROM proposals WHERE trip_id = ANY($2) AND tenant_id IS NOT DISTINCT FROM $1";

    const ENTRIES = "-- people.entries
    SELECT entry_id, event_id FROM timeline WHERE tenant_id = $1 AND client_id = $2 AND entry_id >= $3";

    /// The accounts of the domains of emails.
    const ACCOUNTS = "-- people.accounts
    SELECT c.client_id FROM unnest($2::text[]) AS w (domain)
    CROSS JOIN LATERAL (SELECT client_id FROM clients c
                        WHERE c.company_domain = w.domain AND c.tenant_id::text = ($1::uuid)::text LIMIT 1) AS c";

    /// Events about a colleague on a company's account are on the account's timeline, with the colleague as their actor.
    const ACCOUNT_ENTRIES = "-- people.account_entries
    SELECT t.entry_id, t.event_id
    FROM unnest($2::uuid[]) AS a (account_id)
    CROSS JOIN LATERAL (SELECT * FROM timeline t
                        WHERE t.tenant_id = $1 AND t.client_id = a.account_id AND t.entry_id >= $5 OFFSET 0) AS t
    WHERE EXISTS (SELECT FROM unnest($3::text[], $4::uuid[]) AS e (email, last_id)
                  WHERE t.actor_key = e.email AND t.entry_id <= e.last_id)";

    /// Every payload of an outbound event names its client (D25). `$2` is the smallest id that it can have.
    const OUTBOX = "-- people.outbox
    SELECT event_id FROM outbox
    WHERE tenant_id = $1 AND event_id >= $2 AND envelope->'payload'->>'clientId' = $3";

    const NOTIFICATIONS = "-- people.notifications
    SELECT notification_id FROM notifications
    WHERE tenant_id = $1 AND notification_id >= $2 AND lead_id = ANY($3)";

    /// A lead may have any number of messages.
    const DELETE_MESSAGES = "-- people.delete_messages
    DELETE FROM inbox_messages WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM inbox_messages WHERE tenant_id = $1 AND lead_id = ANY($2) LIMIT $3
    ))";

    /// The responses of POSTs name the client.
    const IDEMPOTENCY_KEYS = "-- people.idempotency_keys
    SELECT key_prefix, idempotency_key FROM idempotency_keys
    WHERE created_at >= $2 AND tenant_id IS NOT DISTINCT FROM $1
      AND $3 IN (body->'data'->>'id', body->'data'->>'clientId')";

    /// The id of a delivery begins with the 48 bits of its event's time.
    const DELIVERIES = "-- people.deliveries
    SELECT d.delivery_id FROM unnest($2::uuid[]) AS o (event_id)
    CROSS JOIN LATERAL (
        SELECT delivery_id FROM deliveries d
        WHERE d.tenant_id = $1 AND d.event_id = o.event_id
          AND d.delivery_id >= (left(o.event_id::text, 13) || '-0000-0000-000000000000')::uuid
          AND d.delivery_id <= (left(o.event_id::text, 13) || '-ffff-ffff-ffffffffffff')::uuid
        OFFSET 0
    ) AS d";

    /// A fan-out that is under way commits first: its deliveries are found afterwards.
    const FORGET_PENDING = "-- people.forget_pending
    DELETE FROM outbox_pending
    WHERE slot = $3 AND tenant_id = $1 AND event_id = ANY($2::uuid[])";

    /// Their attempts are deleted, of which the last one is in the row.
    const DROP = "-- people.drop_deliveries
    UPDATE deliveries SET state = 'dropped', next_attempt_at = NULL, needs_notice = false, last_at = NULL, last_status = NULL,
        last_error = NULL, last_duration_ms = NULL
    WHERE tenant_id = $1 AND delivery_id = ANY($2)";

    /// The signature stays known as used. Without its key a repeat is refused instead of being applied again (D3).
    const FORGET_IDEMPOTENCY_KEYS = "-- people.forget_idempotency_keys
    UPDATE replay_entries SET idempotency_key = NULL
    WHERE tenant_id = $1 AND key_prefix = ANY($2) AND idempotency_key = ANY($3)";

    const ADVISOR_ACTIONS = "-- advisor_actions.page
    SELECT number, properties, body FROM advisor_actions WHERE tenant_id = $1 AND number > $2 ORDER BY number LIMIT 1000";

    const ERASE_ADVISOR_ACTIONS = "-- advisor_actions.erase
    DELETE FROM advisor_actions WHERE tenant_id = $1 AND number = ANY($2)";
}

pub(crate) struct FoundPerson {
    pub(crate) is_company: bool,
    pub(crate) identities: Vec<OwnIdentity>,
    pub(crate) account: Option<Uuid>,
    pub(crate) created_at: DateTime<Utc>,
}

pub(crate) async fn find(on: &impl GenericClient, tenant: TenantId, id: ClientId) -> Result<Option<FoundPerson>> {
    let read = |row: &Row| {
        let column = |name, identity: fn(String) -> PersonIdentity<String>| {
            Ok::<_, AdminError>(row.try_get::<_, Option<String>>(name)?.map(identity).map(OwnIdentity::current))
        };
        let identities = [
            column("email_key", PersonIdentity::Email)?,
            column("phone_digits", PersonIdentity::Phone)?,
            column("external_id", PersonIdentity::ExternalId)?,
        ];
        Ok(read_row!(row => FoundPerson {
            is_company, identities: identities.into_iter().flatten().collect(), account = "account_id",
            created_at
        }))
    };
    one(on, FIND, &[&tenant.0, &id.0], read).await
}

/// The identities that the person had before they were changed.
pub(crate) async fn former_identities(
    on: &impl GenericClient, tenant: TenantId, id: ClientId,
) -> Result<Vec<OwnIdentity>> {
    let read = |row: &Row| {
        let (kind, text): (&str, String) = (row.try_get("kind")?, row.try_get("identity")?);
        let identity = match kind {
            "email" => PersonIdentity::Email(text),
            "phone" => PersonIdentity::Phone(text),
            "external_id" => PersonIdentity::ExternalId(text),
            other => return Err(AdminError::Unreadable(format!("{other} is no kind of identity"))),
        };
        Ok(OwnIdentity { identity, until: row.try_get("until")? })
    };
    all(on, FORMER_IDENTITIES, &[&tenant.0, &id.0], read).await
}

/// Fills in the ids of at most so many of the person's leads and of what belongs to them, and the entries of timelines that were
/// written since `from`.
pub(crate) async fn find_records(
    on: &impl GenericClient, person: &mut Person, from: DateTime<Utc>, max_leads: usize,
) -> Result<()> {
    let (tenant, client) = (person.tenant.0, person.client.0);
    let max_leads = i64::try_from(max_leads).unwrap_or(i64::MAX);
    person.leads = ids(on, LEADS, &[&tenant, &client, &max_leads]).await?;
    person.trips = ids(on, TRIPS, &[&tenant, &person.leads]).await?;
    person.proposals = ids(on, PROPOSALS, &[&tenant, &person.trips]).await?;
    let (first, read) = (first_id(from), |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?)));
    let entries: Vec<(Uuid, String)> = all(on, ENTRIES, &[&tenant, &client, &first], read).await?;
    (person.entries, person.events) = entries.into_iter().unzip();
    find_account_entries(on, person, first).await
}

async fn find_account_entries(on: &impl GenericClient, person: &mut Person, first: Uuid) -> Result<()> {
    let tenant = person.tenant.0;
    let domains: Vec<&str> = person.emails().filter_map(|(email, _)| Some(email.rsplit_once('@')?.1)).collect();
    let by_domain = ids(on, ACCOUNTS, &[&tenant, &domains]).await?;
    person.accounts.extend(by_domain);
    person.accounts.sort_unstable();
    person.accounts.dedup();
    let last_id = |until: Option<DateTime<Utc>>| until.map_or(Uuid::max(), last_id);
    let (emails, last_ids): (Vec<&str>, Vec<Uuid>) =
        person.emails().map(|(email, until)| (email, last_id(until))).unzip();
    let read = |row: &Row| Ok((row.try_get::<_, Uuid>(0)?, row.try_get::<_, String>(1)?));
    let parameters: Parameters<'_> = &[&tenant, &person.accounts, &emails, &last_ids, &first];
    for (entry, event) in all(on, ACCOUNT_ENTRIES, parameters, read).await? {
        person.account_entries.push(entry);
        person.events.push(event);
    }
    Ok(())
}

/// Adds what was written since `from` and is not found by an id of the person: reads all rows of the tenant since then.
pub(crate) async fn find_since(on: &impl GenericClient, person: &mut Person, from: DateTime<Utc>) -> Result<()> {
    let (tenant, client, first) = (person.tenant.0, person.client.0.to_string(), first_id(from));
    person.outbox.extend(ids(on, OUTBOX, &[&tenant, &first, &client]).await?);
    find_notifications(on, person, from).await?;
    let read = |row: &Row| Ok((row.try_get::<_, String>(0)?, row.try_get::<_, String>(1)?));
    person.idempotency_keys.extend(all(on, IDEMPOTENCY_KEYS, &[&tenant, &from, &client], read).await?);
    Ok(())
}

/// Adds the notifications about the person's leads that were written since `from`.
pub(crate) async fn find_notifications(
    on: &impl GenericClient, person: &mut Person, from: DateTime<Utc>,
) -> Result<()> {
    let parameters: Parameters<'_> = &[&person.tenant.0, &first_id(from), &person.leads];
    person.notifications.extend(ids(on, NOTIFICATIONS, parameters).await?);
    Ok(())
}

/// Fills in the deliveries of the person's outbound events.
pub(crate) async fn find_deliveries(on: &impl GenericClient, person: &mut Person) -> Result<()> {
    let outbox: Vec<Uuid> = person.outbox.iter().copied().collect();
    person.deliveries = ids(on, DELIVERIES, &[&person.tenant.0, &outbox]).await?;
    Ok(())
}

/// Deletes at most so many inbox messages of the person's leads, and returns their number.
pub(crate) async fn delete_messages(tx: &Transaction<'_>, person: &Person, max: usize) -> Result<u64> {
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    execute(tx, DELETE_MESSAGES, &[&person.tenant.0, &person.leads, &max]).await
}

/// Removes the person's outbound events from those that are to be fanned out.
pub(crate) async fn forget_pending(tx: &Transaction<'_>, person: &Person) -> Result<()> {
    let outbox: Vec<Uuid> = person.outbox.iter().copied().collect();
    execute(tx, FORGET_PENDING, &[&person.tenant.0, &outbox, &person.tenant.slot()]).await?;
    Ok(())
}

/// Drops the person's deliveries, whatever their state, and returns their number.
pub(crate) async fn drop_deliveries(tx: &Transaction<'_>, person: &Person) -> Result<u64> {
    execute(tx, DROP, &[&person.tenant.0, &person.deliveries]).await
}

/// Removes the person's idempotency keys from the signatures that were used with them.
pub(crate) async fn forget_idempotency_keys(tx: &Transaction<'_>, person: &Person) -> Result<u64> {
    let (prefixes, keys) = person.idempotency_key_columns();
    execute(tx, FORGET_IDEMPOTENCY_KEYS, &[&person.tenant.0, &prefixes, &keys]).await
}

/// Some of the advisor actions of a tenant that wait to be applied, after that number, each with its number.
pub(crate) async fn advisor_actions(
    on: &impl GenericClient, tenant: TenantId, after: i64,
) -> Result<Vec<(i64, Message)>> {
    let read = |row: &Row| Ok((row.try_get(0)?, Message::from_stored(row.try_get(1)?, row.try_get(2)?)));
    all(on, ADVISOR_ACTIONS, &[&tenant.0, &after], read).await
}

/// Deletes advisor actions, and returns their number.
pub(crate) async fn erase_advisor_actions(tx: &Transaction<'_>, tenant: TenantId, numbers: &[i64]) -> Result<u64> {
    execute(tx, ERASE_ADVISOR_ACTIONS, &[&tenant.0, &numbers]).await
}

async fn ids(on: &impl GenericClient, statement: Sql, parameters: Parameters<'_>) -> Result<Vec<Uuid>> {
    all(on, statement, parameters, |row| Ok(row.try_get(0)?)).await
}

/// The smallest UUIDv7 of that millisecond.
fn first_id(at: DateTime<Utc>) -> Uuid {
    Uuid::from_u128(u128::try_from(at.timestamp_millis()).unwrap_or_default() << 80)
}

/// The largest UUIDv7 of that millisecond.
fn last_id(at: DateTime<Utc>) -> Uuid {
    Uuid::from_u128(first_id(at).as_u128() | ((1 << 80) - 1))
}
