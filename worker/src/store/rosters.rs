//! Rosters: the travelers of a client, replaced as a whole.

use super::{States, Wanted, query, write_rows};
use crate::state::Roster;
use common::db::TxError;
use common::model::{ClientId, TenantId};
use common::view::TravelerView;
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

pub(super) const LOAD: &str = "
    -- rosters.load
    SELECT tenant_id, client_id, name, type, age, email, phone
    FROM travelers JOIN unnest($1::uuid[], $2::uuid[]) AS wanted (tenant_id, client_id) USING (tenant_id, client_id)
    ORDER BY tenant_id, client_id, position";

pub(super) const DELETE: &str = "
    -- rosters.delete
    DELETE FROM travelers WHERE (tenant_id, client_id) IN (SELECT * FROM unnest($1::uuid[], $2::uuid[]))";

pub(super) const INSERT: &str = "
    -- rosters.insert
    INSERT INTO travelers (tenant_id, client_id, position, name, type, age, email, phone)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::text[], $5::text[], $6::smallint[], $7::text[],
                         $8::text[])";

/// Loads the rosters of the clients that are loaded.
pub(super) async fn load(
    tx: &Transaction<'_>,
    states: &States,
    wanted: &Wanted,
) -> Result<Vec<Row>, TxError> {
    if !wanted.shown {
        return Ok(Vec::new());
    }
    let (tenants, clients) = super::load::clients_of(states);
    query(tx, LOAD, &[&tenants, &clients]).await
}

/// Takes in what [`load`] found, which is in the rosters' order.
pub(super) fn fill(states: &mut States, rows: &[Row]) {
    let mut rosters: std::collections::BTreeMap<(TenantId, ClientId), Vec<TravelerView>> = Default::default();
    for row in rows {
        let traveler = TravelerView {
            name: row.get("name"),
            kind: row.get("type"),
            age: row.get("age"),
            email: row.get("email"),
            phone: row.get("phone"),
        };
        let key = (TenantId(row.get("tenant_id")), ClientId(row.get("client_id")));
        rosters.entry(key).or_default().push(traveler);
    }
    for ((tenant, client_id), travelers) in rosters {
        if let Some(state) = states.get_mut(&tenant) {
            state.rosters.load(client_id, Roster { client_id, travelers });
        }
    }
}

/// One traveler with its client and place.
struct Place<'s> {
    client: ClientId,
    position: i16,
    traveler: &'s TravelerView,
}

/// Writes new and changed rosters.
pub(super) async fn replace(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let touched = super::rows(states, |state| state.rosters.touched());
    let places: Vec<_> = touched
        .iter()
        .flat_map(|roster| {
            let place = |(position, traveler)| {
                (roster.tenant, Place { client: roster.client_id, position, traveler })
            };
            (0_i16..).zip(&roster.travelers).map(place)
        })
        .collect();
    write_rows!(tx, DELETE, touched, |roster| [roster.tenant, roster.client_id.0])?;
    write_rows!(tx, INSERT, places, |place| [
        place.0,
        place.1.client.0,
        place.1.position,
        place.1.traveler.name.as_str(),
        place.1.traveler.kind.as_str(),
        place.1.traveler.age,
        place.1.traveler.email.as_deref(),
        place.1.traveler.phone.as_deref(),
    ])
}
