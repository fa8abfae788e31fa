//! Clients.

use super::{Owned, States, Wanted, query, unreadable, write_rows};
use crate::state::{Client, ClientType, RowState, TenantState};
use common::db::TxError;
use common::model::{ClientId, Email, Phone, TenantId};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

// Clients are the roots that every other change of their records locks, so they are locked here, in the order of
// their ids: those that the unit's contacts may be, and those whose enquiries it names. NO KEY, because inserting an
// enquiry takes a key share of its client. A phone finds the oldest client that has it (D10); as many more are loaded
// as the unit has events, for each may change the phone of one.
//
// Which they are is found first, apart from the lock. A row that another transaction has changed is checked once more
// when its lock is free, and with the search in the condition (`IN (SELECT ..)`) it may not be found again then.
pub(super) const LOAD: &str = "
    -- clients.load
    WITH found (tenant_id, client_id) AS MATERIALIZED (
        SELECT c.tenant_id, c.client_id FROM unnest($1::uuid[], $2::text[]) AS w (tenant_id, key)
            JOIN clients c ON c.tenant_id = w.tenant_id AND c.email_key = w.key
        UNION
        SELECT c.tenant_id, c.client_id FROM unnest($3::uuid[], $4::text[]) AS w (tenant_id, key)
            JOIN clients c ON c.tenant_id = w.tenant_id AND c.external_id = w.key
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($5::uuid[], $6::text[]) AS w (tenant_id, key),
            LATERAL (SELECT client_id FROM clients c WHERE c.tenant_id = w.tenant_id AND c.phone_digits = w.key
                     ORDER BY created_at, client_id LIMIT $7::bigint + 1) c
        UNION
        SELECT * FROM unnest($8::uuid[], $9::uuid[])
        UNION
        SELECT l.tenant_id, l.client_id FROM unnest($10::uuid[], $11::uuid[]) AS w (tenant_id, lead_id)
            JOIN leads l ON l.tenant_id = w.tenant_id AND l.lead_id = w.lead_id
    )
    SELECT tenant_id, client_id, name, email, phone, company, external_id, marketing_opt_in, company_domain,
           account_id, created_at, updated_at
    FROM clients JOIN found USING (tenant_id, client_id)
    ORDER BY tenant_id, client_id
    FOR NO KEY UPDATE OF clients";

pub(super) const INSERT: &str = "
    -- clients.insert
    INSERT INTO clients (tenant_id, client_id, name, email, email_key, phone, phone_digits, company, external_id,
                         marketing_opt_in, client_type, account_id, created_at, updated_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                         $8::text[], $9::text[], $10::boolean[], $11::text[], $12::uuid[], $13::timestamptz[],
                         $14::timestamptz[])";

pub(super) const UPDATE: &str = "
    -- clients.update
    UPDATE clients c
    SET name = n.name, email = n.email, email_key = n.email_key, phone = n.phone, phone_digits = n.phone_digits,
        company = n.company, external_id = n.external_id, marketing_opt_in = n.marketing_opt_in,
        account_id = n.account_id, updated_at = n.updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                $9::text[], $10::boolean[], $11::uuid[], $12::timestamptz[])
         AS n (tenant_id, client_id, name, email, email_key, phone, phone_digits, company, external_id,
               marketing_opt_in, account_id, updated_at)
    WHERE c.tenant_id = n.tenant_id AND c.client_id = n.client_id";

// Uniqueness is checked row by row, so an identity that moves from one client to another must be free in between.
pub(super) const FREE: &str = "
    -- clients.free
    UPDATE clients SET email = NULL, email_key = NULL, external_id = NULL
    WHERE (tenant_id, client_id) IN (SELECT * FROM unnest($1::uuid[], $2::uuid[]))";

/// Loads and locks the clients that the unit's contacts may be.
pub(super) async fn load(tx: &Transaction<'_>, wanted: &Wanted) -> Result<Vec<Row>, TxError> {
    let (email_tenants, emails) = wanted.emails.columns();
    let (external_tenants, external_ids) = wanted.external_ids.columns();
    let (phone_tenants, phones) = wanted.phones.columns();
    let (id_tenants, ids) = wanted.clients.columns();
    let (lead_tenants, leads) = wanted.leads.columns();
    query(
        tx,
        LOAD,
        &[
            &email_tenants,
            &emails,
            &external_tenants,
            &external_ids,
            &phone_tenants,
            &phones,
            &wanted.events,
            &id_tenants,
            &ids,
            &lead_tenants,
            &leads,
        ],
    )
    .await
}

/// Takes in what [`load`] found.
pub(super) fn fill(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        if let Some(state) = states.get_mut(&TenantId(row.get("tenant_id"))) {
            state.load_client(read(row)?);
        }
    }
    Ok(())
}

fn read(row: &Row) -> Result<Client, TxError> {
    let email: Option<&str> = row.get("email");
    let phone: Option<&str> = row.get("phone");
    let company_domain: Option<String> = row.get("company_domain");
    Ok(Client {
        id: ClientId(row.get("client_id")),
        name: row.get("name"),
        email: email.map(Email::parse).transpose().map_err(|_| unreadable("email"))?,
        phone: phone.map(Phone::parse).transpose().map_err(|_| unreadable("phone"))?.flatten(),
        company: row.get("company"),
        external_id: row.get("external_id"),
        marketing_opt_in: row.get("marketing_opt_in"),
        client_type: if company_domain.is_some() { ClientType::Company } else { ClientType::Individual },
        company_domain,
        account_id: row.get::<_, Option<_>>("account_id").map(ClientId),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
    })
}

fn in_state(states: &States, wanted: RowState) -> Vec<Owned<'_, Client>> {
    super::rows(states, |state: &TenantState| state.clients().in_state(wanted))
}

/// Writes new clients.
pub(super) async fn insert(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    write_rows!(tx, INSERT, in_state(states, RowState::New), |client| [
        client.tenant,
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

/// Takes the identities of changed clients away for the moment, when one of them may have moved.
pub(super) async fn free(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    if !states.values().any(|state| state.has_freed_identity) {
        return Ok(());
    }
    write_rows!(tx, FREE, in_state(states, RowState::Changed), |client| [client.tenant, client.id.0])
}

/// Writes changed clients. To be done before new ones are written, which may take what these gave up.
pub(super) async fn update(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    write_rows!(tx, UPDATE, in_state(states, RowState::Changed), |client| [
        client.tenant,
        client.id.0,
        client.name.as_str(),
        client.email.as_ref().map(Email::as_str),
        client.email.as_ref().map(Email::key),
        client.phone.as_ref().map(Phone::as_str),
        client.phone.as_ref().map(Phone::digits),
        client.company.as_deref(),
        client.external_id.as_deref(),
        client.marketing_opt_in,
        client.account_id.map(|id| id.0),
        client.updated_at,
    ])
}
