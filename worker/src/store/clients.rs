//! Clients: how they are found by their identities, locked, loaded and written.

use super::{Columns, LoadRequest, Locking, States, bind_found, company, found, locks, rows, unreadable, write_rows};
use crate::state::{Client, ClientType, RowState, TenantState};
use chrono::{DateTime, Utc};
use common::db::{Query, TxError};
use common::model::{ClientId, Email, Phone, TenantId};
use foldhash::{HashSet, HashSetExt};
use tokio_postgres::Row;
use uuid::Uuid;

/// The columns of a client, and of its entry on its company's account.
macro_rules! columns {
    () => {
        "c.tenant_id, c.client_id, c.name, c.email, c.email_key, c.phone, c.company, c.external_id, c.marketing_opt_in,
           c.company_domain, c.account_id, c.created_at, c.updated_at,
           e.email, e.email_key, e.name, e.phone, e.client_id, e.created_at, e.updated_at"
    };
}

/// The entry of client `c` on its account.
macro_rules! entry {
    () => {
        "LEFT JOIN LATERAL (SELECT * FROM account_contacts e
                       WHERE e.tenant_id = c.tenant_id AND e.account_id = c.account_id AND e.email_key = c.email_key
                       LIMIT 1) AS e ON true"
    };
}

common::statements! {
    // The lock on a client's row also guards the client's leads, discoveries and credit. Rows are locked in the order of
    // ids, so that units do not deadlock. NO KEY, because inserting a lead takes a key share of its client.
    //
    // The clients are found before and apart from the lock: when a lock becomes free, Postgres checks the condition again on
    // the changed row, and with the search in the condition it might not match any more.
    const LOCK = concat!(
    "
    -- clients.lock
    WITH ",
    found!(),
    "
    SELECT c.tenant_id, c.client_id FROM clients c JOIN found USING (tenant_id, client_id)
    ORDER BY c.tenant_id, c.client_id
    FOR NO KEY UPDATE OF c"
    );

    // A person is found by email. If that client does not have the external id that was sent with the email, it is looked up as
    // well: another client may have it. A phone finds the oldest client that has it (D10); as many more clients are loaded as the
    // unit has events, because each event may change the phone of one.
    //
    // An existing client is guarded by its row, so units that only read a client need not wait for each other. An unknown
    // identity is locked without waiting: if two units would make the same client, is_free is false for the later one, which
    // runs again. If the client was made after this statement's snapshot, a unique index fails and the unit runs again. An
    // external id that was sent with an email matches nobody (D10), so only the unique indexes guard it.
    const LOAD = concat!(
    "
    -- clients.load
    SELECT CASE WHEN c.client_id IS NULL THEN pg_try_advisory_xact_lock(c.lock) END AS is_free, ",
    columns!(),
    "
    FROM (
        SELECT w.lock, m.*
        FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[]) AS w (tenant_id, email_key, external_id, lock)
            LEFT JOIN LATERAL (SELECT * FROM clients
                               WHERE email_key = w.email_key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c ON true
            CROSS JOIN LATERAL (
                SELECT c.*
                UNION ALL
                SELECT * FROM (SELECT * FROM clients
                               WHERE external_id = w.external_id AND tenant_id::text = w.tenant_id::text LIMIT 1) AS o
                WHERE c.external_id IS DISTINCT FROM w.external_id
            ) AS m
        UNION ALL
        SELECT w.lock, c.*
        FROM unnest($5::uuid[], $6::text[], $7::bigint[]) AS w (tenant_id, external_id, lock)
            LEFT JOIN LATERAL (SELECT * FROM clients
                               WHERE external_id = w.external_id AND tenant_id::text = w.tenant_id::text
                               LIMIT 1) AS c ON true
        UNION ALL
        SELECT NULL, c.*
        FROM unnest($8::uuid[], $9::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT * FROM clients
                                WHERE phone_digits = w.key AND tenant_id::text = w.tenant_id::text
                                ORDER BY created_at, client_id LIMIT $10::bigint + 1) AS c
    ) AS c
    ",
    entry!()
    );

    const LOAD_NAMED = concat!(
    "
    -- clients.load_named
    WITH ",
    found!(),
    "
    SELECT NULL::boolean AS is_free, ",
    columns!(),
    "
    FROM found
    CROSS JOIN LATERAL (SELECT * FROM clients c
                        WHERE c.tenant_id = found.tenant_id AND c.client_id = found.client_id LIMIT 1) AS c
    ",
    entry!()
    );

    const INSERT = "
    -- clients.insert
    INSERT INTO clients (tenant_id, client_id, name, email, email_key, phone, phone_digits, company, external_id,
                         marketing_opt_in, client_type, account_id, created_at, updated_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                         $8::text[], $9::text[], $10::boolean[], $11::text[], $12::uuid[], $13::timestamptz[],
                         $14::timestamptz[])";

    // Updates only rows whose version is unchanged, because clients of contact events are read without a lock. A row that
    // another unit has locked is skipped, and the unit runs again. It must not wait, because it holds locks by now that the
    // other unit may wait for.
    const UPDATE = "
    -- clients.update
    WITH held AS (
        SELECT n.*
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                    $9::text[], $10::boolean[], $11::uuid[], $12::timestamptz[], $13::timestamptz[])
             AS n (tenant_id, client_id, name, email, email_key, phone, phone_digits, company, external_id,
                   marketing_opt_in, account_id, updated_at, version)
        CROSS JOIN LATERAL (SELECT FROM clients c
                            WHERE c.tenant_id = n.tenant_id AND c.client_id = n.client_id AND c.updated_at = n.version
                            FOR NO KEY UPDATE SKIP LOCKED) AS c
    ),
    changed AS (
        UPDATE clients c
        SET name = n.name, email = n.email, email_key = n.email_key, phone = n.phone, phone_digits = n.phone_digits,
            company = n.company, external_id = n.external_id, marketing_opt_in = n.marketing_opt_in,
            account_id = n.account_id, updated_at = n.updated_at
        FROM held AS n
        WHERE c.tenant_id = n.tenant_id AND c.client_id = n.client_id
        RETURNING 1
    )
    SELECT require_unchanged((SELECT count(*) FROM changed), cardinality($2::uuid[]))";

    // Postgres checks uniqueness row by row, so an identity that moves from one client to another must be set to NULL in
    // between. As in UPDATE, a row that another unit has locked is skipped: UPDATE then fails.
    const FREE = "
    -- clients.free
    WITH held AS (
        SELECT n.* FROM unnest($1::uuid[], $2::uuid[]) AS n (tenant_id, client_id)
        CROSS JOIN LATERAL (SELECT FROM clients c
                            WHERE c.tenant_id = n.tenant_id AND c.client_id = n.client_id
                            FOR NO KEY UPDATE SKIP LOCKED) AS c
    )
    UPDATE clients c SET email = NULL, email_key = NULL, external_id = NULL
    FROM held AS n
    WHERE c.tenant_id = n.tenant_id AND c.client_id = n.client_id";
}

/// Locks the clients whose records the unit looks up or changes, and returns their ids.
pub(super) fn lock(request: &LoadRequest, locking: Locking) -> Option<Query<'static>> {
    let people = match locking {
        Locking::Related => &request.related,
        Locking::Everything => &request.people,
    };
    if people.is_empty() && request.clients.is_empty() {
        return None;
    }
    Some(bind_found(Query::new(LOCK), people, request.events, &request.clients))
}

/// The clients that [`lock`] locked.
pub(super) fn locked(rows: &[Row]) -> HashSet<(TenantId, ClientId)> {
    rows.iter().map(|row| (TenantId(row.get(0)), ClientId(row.get(1)))).collect()
}

/// Loads the clients that the unit's identities match, and locks the identities that match none.
pub(super) fn load(request: &LoadRequest) -> Option<Query<'static>> {
    let people = &request.people;
    if people.is_empty() {
        return None;
    }
    let mut by_email = Vec::new();
    let mut by_external_id = Vec::new();
    let mut with_external_id = HashSet::new();
    for ((tenant, external_id), email) in &people.external_ids {
        match email {
            Some(email) => {
                with_external_id.insert((*tenant, email.as_str()));
                by_email.push((*tenant, email.as_str(), Some(external_id.as_str())));
            }
            None => by_external_id.push((*tenant, external_id.as_str())),
        }
    }
    let alone = people.emails.iter().map(|(tenant, email)| (*tenant, email.as_str()));
    by_email
        .extend(alone.filter(|email| !with_external_id.contains(email)).map(|(tenant, email)| (tenant, email, None)));
    let (phone_tenants, phones) = people.phones.columns();
    let query = Query::new(LOAD)
        .bind_column(&by_email, |email| email.0)
        .bind_column(&by_email, |email| email.1.to_owned())
        .bind_column(&by_email, |email| email.2.map(str::to_owned))
        .bind_column(&by_email, |email| locks::email_lock(email.0, email.1))
        .bind_column(&by_external_id, |external| external.0)
        .bind_column(&by_external_id, |external| external.1.to_owned())
        .bind_column(&by_external_id, |external| locks::external_id_lock(external.0, external.1))
        .bind(phone_tenants)
        .bind(phones);
    Some(query.bind(request.events))
}

/// Loads the clients that are named by id, lead or booking.
pub(super) fn load_named(request: &LoadRequest) -> Option<Query<'static>> {
    let no_people = super::WantedIdentities::default();
    (!request.clients.is_empty())
        .then(|| bind_found(Query::new(LOAD_NAMED), &no_people, request.events, &request.clients))
}

/// Adds the rows of [`load`] and [`load_named`] to the states. Fails with [`TxError::Stale`] when another unit is making a
/// client that was not found.
pub(super) fn fill(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let mut columns = Columns::of(row);
        match columns.take::<Option<bool>>() {
            Some(false) => {
                return Err(TxError::Stale("another unit is making a client of the same identity"));
            }
            // No client has this identity.
            Some(true) => continue,
            None => {}
        }
        let Some(state) = states.get_mut(&TenantId(columns.take())) else { continue };
        let client = read_client(&mut columns)?;
        let account = client.account_id;
        state.load_client(client);
        if let Some(account) = account {
            company::fill_contact(state, account, &mut columns)?;
        }
    }
    Ok(())
}

fn read_client(columns: &mut Columns<'_>) -> Result<Client, TxError> {
    let id = ClientId(columns.take());
    let name = columns.take();
    let email = columns.take_email()?;
    let phone: Option<&str> = columns.take();
    let (company, external_id, marketing_opt_in) = (columns.take(), columns.take(), columns.take());
    let company_domain: Option<String> = columns.take();
    Ok(Client {
        id,
        name,
        email,
        phone: phone.map(Phone::parse).transpose().map_err(|_| unreadable("phone"))?.flatten(),
        company,
        external_id,
        marketing_opt_in,
        client_type: if company_domain.is_some() { ClientType::Company } else { ClientType::Individual },
        company_domain,
        account_id: columns.take::<Option<_>>().map(ClientId),
        created_at: columns.take(),
        updated_at: columns.take(),
    })
}

/// Inserts new clients, after changed ones have released their identities.
pub(super) fn insert(states: &States) -> Option<Query<'_>> {
    let new = rows(states, |state: &TenantState| state.clients().in_state(RowState::New));
    write_rows!(INSERT, new, |tenant, client| [
        tenant,
        client.id.0,
        client.name.as_str(),
        client.email.as_ref().map(Email::as_str),
        client.email.as_ref().map(Email::key),
        client.phone.as_ref().map(Phone::as_str),
        client.phone.as_ref().map(Phone::digits),
        client.company.as_deref(),
        client.external_id.as_deref(),
        client.marketing_opt_in,
        client.client_type.as_str(),
        client.account_id.map(|id| id.0),
        client.created_at,
        client.updated_at,
    ])
}

fn changed(states: &States) -> Vec<(Uuid, (&Client, DateTime<Utc>))> {
    rows(states, |state: &TenantState| state.clients().changed())
}

/// Sets the identities of changed clients to NULL, if one of them may move to another client in this unit.
pub(super) fn free(states: &States) -> Option<Query<'_>> {
    if !states.values().any(|state| state.has_freed_identity) {
        return None;
    }
    write_rows!(FREE, changed(states), |tenant, client| [tenant, client.0.id.0])
}

/// Updates changed clients. Must be sent before the inserts of new clients, which may take identities that these have released.
pub(super) fn update(states: &States) -> Option<Query<'_>> {
    write_rows!(UPDATE, changed(states), |tenant, client| [
        tenant,
        client.0.id.0,
        client.0.name.as_str(),
        client.0.email.as_ref().map(Email::as_str),
        client.0.email.as_ref().map(Email::key),
        client.0.phone.as_ref().map(Phone::as_str),
        client.0.phone.as_ref().map(Phone::digits),
        client.0.company.as_deref(),
        client.0.external_id.as_deref(),
        client.0.marketing_opt_in,
        client.0.account_id.map(|id| id.0),
        client.0.updated_at,
        client.1,
    ])
}
