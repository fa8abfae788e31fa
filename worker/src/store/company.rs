//! Company accounts and the colleagues listed on them (D13).

use super::{States, Wanted, query, unreadable, write_rows};
use crate::state::{AccountContact, Client, ClientType};
use common::db::TxError;
use common::model::{ClientId, Email, Phone, TenantId};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

// Not locked: an account is made by the CRM and no event changes it.
pub(super) const LOAD_ACCOUNTS: &str = "
    -- company.load_accounts
    SELECT tenant_id, client_id, name, company_domain, created_at, updated_at
    FROM clients JOIN unnest($1::uuid[], $2::text[]) AS wanted (tenant_id, company_domain)
         USING (tenant_id, company_domain)";

// The identity lock on the email guards an entry, whether it exists or not.
pub(super) const LOAD: &str = "
    -- company.load
    SELECT e.tenant_id, e.account_id, e.email, e.name, e.phone, e.client_id, e.created_at, e.updated_at
    FROM unnest($1::uuid[], $2::text[]) AS w (tenant_id, email_key)
    JOIN clients a ON a.tenant_id = w.tenant_id AND a.company_domain = split_part(w.email_key, '@', -1)
    JOIN account_contacts e ON e.tenant_id = w.tenant_id AND e.account_id = a.client_id AND e.email_key = w.email_key";

pub(super) const UPSERT: &str = "
    -- company.upsert
    INSERT INTO account_contacts AS e (tenant_id, account_id, email_key, email, name, phone, client_id, created_at,
                                       updated_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[],
                         $8::timestamptz[], $9::timestamptz[])
    ON CONFLICT (tenant_id, account_id, email_key) DO UPDATE
    SET name = excluded.name, phone = excluded.phone, client_id = excluded.client_id, updated_at = excluded.updated_at";

/// Loads the accounts of the unit's mail domains.
pub(super) async fn load_accounts(tx: &Transaction<'_>, wanted: &Wanted) -> Result<Vec<Row>, TxError> {
    let (tenants, domains) = wanted.domains.columns();
    query(tx, LOAD_ACCOUNTS, &[&tenants, &domains]).await
}

/// Loads the entries of the unit's emails on those accounts.
pub(super) async fn load(tx: &Transaction<'_>, wanted: &Wanted) -> Result<Vec<Row>, TxError> {
    let (tenants, emails) = wanted.emails.columns();
    query(tx, LOAD, &[&tenants, &emails]).await
}

/// Takes in what [`load_accounts`] found.
pub(super) fn fill_accounts(states: &mut States, rows: &[Row]) {
    for row in rows {
        let Some(state) = states.get_mut(&TenantId(row.get("tenant_id"))) else { continue };
        state.load_client(Client {
            id: ClientId(row.get("client_id")),
            name: row.get("name"),
            email: None,
            phone: None,
            company: None,
            external_id: None,
            marketing_opt_in: false,
            client_type: ClientType::Company,
            company_domain: row.get("company_domain"),
            account_id: None,
            created_at: row.get("created_at"),
            updated_at: row.get("updated_at"),
        });
    }
}

/// Takes in what [`load`] found.
pub(super) fn fill(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let Some(state) = states.get_mut(&TenantId(row.get("tenant_id"))) else { continue };
        let phone: Option<&str> = row.get("phone");
        let entry = AccountContact {
            account_id: ClientId(row.get("account_id")),
            email: Email::parse(row.get("email")).map_err(|_| unreadable("email"))?,
            name: row.get("name"),
            phone: phone.map(Phone::parse).transpose().map_err(|_| unreadable("phone"))?.flatten(),
            client_id: row.get::<_, Option<_>>("client_id").map(ClientId),
            created_at: row.get("created_at"),
            updated_at: row.get("updated_at"),
        };
        state.account_contacts.load((entry.account_id, entry.email.key().to_owned()), entry);
    }
    Ok(())
}

/// Writes new and changed entries.
pub(super) async fn upsert(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let touched = super::rows(states, |state| state.account_contacts.touched());
    write_rows!(tx, UPSERT, touched, |entry| [
        entry.tenant,
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
