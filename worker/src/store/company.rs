//! Company accounts and the colleagues listed on them (D13).

use super::{States, Wanted, query, unreadable, write_rows};
use crate::state::{AccountContact, Client, ClientType};
use common::db::TxError;
use common::model::{ClientId, Email, Phone, TenantId};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use uuid::Uuid;

// Not locked: an account is made by the CRM and no event changes it.
pub(super) const LOAD_ACCOUNTS: &str = "
    -- company.load_accounts
    SELECT tenant_id, client_id, name, company_domain, created_at, updated_at
    FROM clients JOIN unnest($1::uuid[], $2::text[]) AS wanted (tenant_id, company_domain)
         USING (tenant_id, company_domain)";

pub(super) const LOAD: &str = "
    -- company.load
    SELECT tenant_id, account_id, email, name, phone, client_id, created_at, updated_at
    FROM account_contacts JOIN unnest($1::uuid[], $2::uuid[], $3::text[]) AS wanted (tenant_id, account_id, email_key)
         USING (tenant_id, account_id, email_key)";

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

/// Loads the entries that the unit may change: those of the emails it names, on the accounts of their domains, and those
/// of the clients it found, on their accounts. The lock on the email or on the client guards them, whether they exist
/// or not.
pub(super) async fn load(
    tx: &Transaction<'_>,
    states: &States,
    wanted: &Wanted,
) -> Result<Vec<Row>, TxError> {
    let (mut tenants, mut accounts, mut emails) = (Vec::new(), Vec::new(), Vec::new());
    let mut want = |tenant: Uuid, account: ClientId, email: &str| {
        tenants.push(tenant);
        accounts.push(account.0);
        emails.push(email.to_owned());
    };
    for (tenant, email) in wanted.emails.iter() {
        let domain = email.rsplit_once('@').map_or("", |(_, domain)| domain);
        let state = states.get(&TenantId(*tenant));
        if let Some(account) = state.and_then(|state| state.account_by_domain(domain)) {
            want(*tenant, account.id, email);
        }
    }
    for (tenant, state) in states {
        for client in state.clients().values() {
            if let (Some(account), Some(email)) = (client.account_id, &client.email) {
                want(tenant.0, account, email.key());
            }
        }
    }
    if tenants.is_empty() {
        return Ok(Vec::new());
    }
    query(tx, LOAD, &[&tenants, &accounts, &emails]).await
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
