//! Corporate credit shown for clients.

use super::{States, Wanted, query, write_rows};
use crate::state::Credit;
use common::db::TxError;
use common::model::{ClientId, TenantId};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

pub(super) const LOAD: &str = "
    -- credits.load
    SELECT tenant_id, client_id, as_of, membership_id, corporate_name, available_paise, granted_paise,
           redeemable_percent
    FROM client_credits JOIN unnest($1::uuid[], $2::uuid[]) AS wanted (tenant_id, client_id)
         USING (tenant_id, client_id)";

pub(super) const UPSERT: &str = "
    -- credits.upsert
    INSERT INTO client_credits (tenant_id, client_id, as_of, membership_id, corporate_name, available_paise,
                                granted_paise, redeemable_percent)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::bigint[],
                         $7::bigint[], $8::float8[])
    ON CONFLICT (tenant_id, client_id) DO UPDATE
    SET as_of = excluded.as_of, membership_id = excluded.membership_id, corporate_name = excluded.corporate_name,
        available_paise = excluded.available_paise, granted_paise = excluded.granted_paise,
        redeemable_percent = excluded.redeemable_percent";

/// Loads the credit of the clients that are loaded.
pub(super) async fn load(
    tx: &Transaction<'_>,
    states: &States,
    wanted: &Wanted,
) -> Result<Vec<Row>, TxError> {
    if !wanted.client_credits {
        return Ok(Vec::new());
    }
    let (tenants, clients) = super::load::clients_of(states);
    query(tx, LOAD, &[&tenants, &clients]).await
}

/// Takes in what [`load`] found.
pub(super) fn fill(states: &mut States, rows: &[Row]) {
    for row in rows {
        let Some(state) = states.get_mut(&TenantId(row.get("tenant_id"))) else { continue };
        let credit = Credit {
            client_id: ClientId(row.get("client_id")),
            as_of: row.get("as_of"),
            membership_id: row.get("membership_id"),
            corporate_name: row.get("corporate_name"),
            available_paise: row.get("available_paise"),
            granted_paise: row.get("granted_paise"),
            redeemable_percent: row.get("redeemable_percent"),
        };
        state.credits.load(credit.client_id, credit);
    }
}

/// Writes new and changed credit.
pub(super) async fn upsert(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let touched = super::rows(states, |state| state.credits.touched());
    write_rows!(tx, UPSERT, touched, |credit| [
        credit.tenant,
        credit.client_id.0,
        credit.as_of,
        credit.membership_id.as_deref(),
        credit.corporate_name.as_deref(),
        credit.available_paise,
        credit.granted_paise,
        credit.redeemable_percent,
    ])
}
