//! Company accounts and the colleagues listed on them (D13).

use super::{Columns, LoadRequest, States, rows, unreadable, write_rows};
use crate::state::{AccountContact, Client, ClientType, RowState, TenantState};
use common::db::{Query, TxError};
use common::model::{ClientId, Phone, TenantId};
use tokio_postgres::Row;
use uuid::Uuid;

common::statements! {
    // The account of each email's domain, with the entry of that email. Not locked: no event changes an account, and entries
    // are updated only if their version is unchanged.
    const LOAD = "
    -- company.load
    SELECT w.tenant_id, a.client_id, a.name, a.company_domain, a.created_at, a.updated_at,
           e.email, e.email_key, e.name, e.phone, e.client_id, e.created_at, e.updated_at
    FROM unnest($1::uuid[], $2::text[], $3::text[]) AS w (tenant_id, email_key, domain)
    CROSS JOIN LATERAL (SELECT * FROM clients
                        WHERE company_domain = w.domain AND tenant_id::text = w.tenant_id::text LIMIT 1) AS a
    LEFT JOIN LATERAL (SELECT * FROM account_contacts e
                       WHERE e.tenant_id = w.tenant_id AND e.account_id = a.client_id AND e.email_key = w.email_key
                       LIMIT 1) AS e ON true";

    // The entries of the emails that writes assign to clients, on every account that one of the unit's clients may belong to
    // when it is changed: the accounts of the clients, and those of the mail domains.
    const LOAD_MOVED = "
    -- company.load_moved
    WITH accounts (tenant_id, account_id) AS MATERIALIZED (
        SELECT w.tenant_id, c.account_id FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, client_id)
        CROSS JOIN LATERAL (SELECT account_id FROM clients
                            WHERE tenant_id = w.tenant_id AND client_id = w.client_id LIMIT 1) AS c
        WHERE c.account_id IS NOT NULL
        UNION
        SELECT w.tenant_id, a.client_id FROM unnest($3::uuid[], $4::text[]) AS w (tenant_id, domain)
        CROSS JOIN LATERAL (SELECT client_id FROM clients
                            WHERE company_domain = w.domain AND tenant_id::text = w.tenant_id::text LIMIT 1) AS a
    )
    SELECT a.tenant_id, a.account_id, e.email, e.email_key, e.name, e.phone, e.client_id, e.created_at, e.updated_at
    FROM accounts a
    JOIN unnest($5::uuid[], $6::text[]) AS w (tenant_id, email_key) ON w.tenant_id = a.tenant_id
    CROSS JOIN LATERAL (SELECT * FROM account_contacts e
                        WHERE e.tenant_id = a.tenant_id AND e.account_id = a.account_id AND e.email_key = w.email_key
                        LIMIT 1) AS e";

    const INSERT = "
    -- company.insert
    INSERT INTO account_contacts (tenant_id, account_id, email_key, email, name, phone, client_id, created_at, updated_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[],
                         $8::timestamptz[], $9::timestamptz[])";

    const UPDATE = "
    -- company.update
    WITH changed AS (
        UPDATE account_contacts e
        SET name = n.name, phone = n.phone, client_id = n.client_id, updated_at = n.updated_at
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::timestamptz[],
                    $8::timestamptz[])
             AS n (tenant_id, account_id, email_key, name, phone, client_id, updated_at, version)
        WHERE e.tenant_id = n.tenant_id AND e.account_id = n.account_id AND e.email_key = n.email_key
          AND e.updated_at = n.version
        RETURNING 1
    )
    SELECT require_unchanged((SELECT count(*) FROM changed), cardinality($2::uuid[]))";
}

/// Loads the accounts of the unit's mail domains, and the entries of its emails on them.
pub(super) fn load(request: &LoadRequest) -> Option<Query<'static>> {
    if request.company_emails.is_empty() {
        return None;
    }
    let (tenants, pairs) = request.company_emails.columns();
    let (emails, domains): (Vec<String>, Vec<String>) = pairs.into_iter().unzip();
    Some(Query::new(LOAD).bind(tenants).bind(emails).bind(domains))
}

/// Loads the entries of emails that the unit assigns to clients, if it has several writes: one may look up the entry of an
/// email that another assigned. A single write looks it up only on the account of the email's domain, which [`load`] loads.
pub(super) fn load_moved(request: &LoadRequest) -> Option<Query<'static>> {
    if request.events < 2 || request.assigned_emails.is_empty() {
        return None;
    }
    let (client_tenants, clients) = request.clients.ids.columns();
    let (domain_tenants, pairs) = request.company_emails.columns();
    let domains: Vec<String> = pairs.into_iter().map(|(_, domain)| domain).collect();
    let (email_tenants, emails) = request.assigned_emails.columns();
    let accounts = Query::new(LOAD_MOVED).bind(client_tenants).bind(clients).bind(domain_tenants).bind(domains);
    Some(accounts.bind(email_tenants).bind(emails))
}

/// Adds the rows of [`load_moved`] to the states.
pub(super) fn fill_moved(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let mut columns = Columns::of(row);
        let Some(state) = states.get_mut(&TenantId(columns.take())) else { continue };
        let account = ClientId(columns.take());
        fill_contact(state, account, &mut columns)?;
    }
    Ok(())
}

/// Adds the rows of [`load`] to the states.
pub(super) fn fill(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let mut columns = Columns::of(row);
        let Some(state) = states.get_mut(&TenantId(columns.take())) else { continue };
        let account = ClientId(columns.take());
        let (name, company_domain) = (columns.take(), columns.take());
        let (created_at, updated_at) = (columns.take(), columns.take());
        if state.client(account).is_none() {
            state.load_client(Client {
                id: account,
                name,
                email: None,
                phone: None,
                company: None,
                external_id: None,
                marketing_opt_in: false,
                client_type: ClientType::Company,
                company_domain,
                account_id: None,
                created_at,
                updated_at,
            });
        }
        fill_contact(state, account, &mut columns)?;
    }
    Ok(())
}

/// Adds the entry on `account` to the state, if there is one.
pub(super) fn fill_contact(
    state: &mut TenantState, account: ClientId, columns: &mut Columns<'_>,
) -> Result<(), TxError> {
    let Some(email) = columns.take_email()? else { return Ok(()) };
    let name = columns.take();
    let phone: Option<&str> = columns.take();
    let entry = AccountContact {
        account_id: account,
        email,
        name,
        phone: phone.map(Phone::parse).transpose().map_err(|_| unreadable("phone"))?.flatten(),
        client_id: columns.take::<Option<_>>().map(ClientId),
        created_at: columns.take(),
        updated_at: columns.take(),
    };
    let version = entry.updated_at;
    state.account_contacts.load_version((account, entry.email.key().to_owned()), entry, version);
    Ok(())
}

/// Inserts new entries. If another unit inserted one meanwhile, the unique violation makes the unit run again.
pub(super) fn insert(states: &States) -> Option<Query<'_>> {
    let new = rows(states, |state| state.account_contacts.in_state(RowState::New));
    write_rows!(INSERT, new, |tenant, entry| [
        tenant,
        entry.account_id.0,
        entry.email.key(),
        entry.email.as_str(),
        entry.name.as_deref(),
        entry.phone.as_ref().map(Phone::as_str),
        entry.client_id.map(|id| id.0),
        entry.created_at,
        entry.updated_at,
    ])
}

/// Updates changed entries whose version is unchanged.
pub(super) fn update(states: &States) -> Option<Query<'_>> {
    let changed: Vec<(Uuid, _)> = rows(states, |state| state.account_contacts.changed());
    write_rows!(UPDATE, changed, |tenant, entry| [
        tenant,
        entry.0.account_id.0,
        entry.0.email.key(),
        entry.0.name.as_deref(),
        entry.0.phone.as_ref().map(Phone::as_str),
        entry.0.client_id.map(|id| id.0),
        entry.0.updated_at,
        entry.1,
    ])
}
