//! Corporate credit shown for clients.

use super::{ClientReferences, Columns, LoadRequest, States, bind_found, found, rows, write_rows};
use crate::state::Credit;
use common::db::Query;
use common::model::{ClientId, TenantId};
use tokio_postgres::Row;

common::statements! {
    const LOAD = concat!(
    "
    -- credits.load
    WITH ",
    found!(),
    "
    SELECT r.tenant_id, r.client_id, r.as_of, r.membership_id, r.corporate_name, r.available_paise, r.granted_paise,
           r.redeemable_percent
    FROM found
    CROSS JOIN LATERAL (SELECT * FROM client_credits r
                        WHERE r.tenant_id = found.tenant_id AND r.client_id = found.client_id LIMIT 1) AS r"
    );

    const UPSERT = "
    -- credits.upsert
    INSERT INTO client_credits (tenant_id, client_id, as_of, membership_id, corporate_name, available_paise,
                                granted_paise, redeemable_percent)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::bigint[],
                         $7::bigint[], $8::float8[])
    ON CONFLICT (tenant_id, client_id) DO UPDATE
    SET as_of = excluded.as_of, membership_id = excluded.membership_id, corporate_name = excluded.corporate_name,
        available_paise = excluded.available_paise, granted_paise = excluded.granted_paise,
        redeemable_percent = excluded.redeemable_percent";
}

pub(super) fn load(request: &LoadRequest) -> Option<Query<'static>> {
    if !request.with_credits {
        return None;
    }
    Some(bind_found(Query::new(LOAD), &request.related, request.events, &ClientReferences::default()))
}

/// Adds the rows of [`load`] to the states.
pub(super) fn fill(states: &mut States, rows: &[Row]) {
    for row in rows {
        let mut columns = Columns::of(row);
        let Some(state) = states.get_mut(&TenantId(columns.take())) else { continue };
        let credit = Credit {
            client_id: ClientId(columns.take()),
            as_of: columns.take(),
            membership_id: columns.take(),
            corporate_name: columns.take(),
            available_paise: columns.take(),
            granted_paise: columns.take(),
            redeemable_percent: columns.take(),
        };
        state.credits.load(credit.client_id, credit);
    }
}

/// Writes new and changed credit, whose clients are locked.
pub(super) fn upsert(states: &States) -> Option<Query<'_>> {
    let new_or_changed = rows(states, |state| state.credits.new_or_changed());
    write_rows!(UPSERT, new_or_changed, |tenant, credit| [
        tenant,
        credit.client_id.0,
        credit.as_of,
        credit.membership_id.as_deref(),
        credit.corporate_name.as_deref(),
        credit.available_paise,
        credit.granted_paise,
        credit.redeemable_percent,
    ])
}
