//! Rosters: the travelers of a client, replaced as a whole.

use super::{Columns, LoadRequest, States, rows, write_rows};
use crate::state::Roster;
use common::db::Query;
use common::model::{ClientId, TenantId};
use common::view::TravelerView;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use uuid::Uuid;

common::statements! {
    const LOAD = "
    -- rosters.load
    SELECT t.tenant_id, t.client_id, t.name, t.type, t.age, t.email, t.phone
    FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, client_id)
    CROSS JOIN LATERAL (SELECT * FROM travelers t
                        WHERE t.tenant_id = w.tenant_id AND t.client_id = w.client_id
                        ORDER BY t.position LIMIT 50) AS t
    ORDER BY t.tenant_id, t.client_id, t.position";

    const DELETE = "
    -- rosters.delete
    DELETE FROM travelers t USING unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, client_id)
    WHERE t.tenant_id = w.tenant_id AND t.client_id = w.client_id";

    const INSERT = "
    -- rosters.insert
    INSERT INTO travelers (tenant_id, client_id, position, name, type, age, email, phone)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::text[], $5::text[], $6::smallint[], $7::text[],
                         $8::text[])";
}

/// Loads the rosters of the clients named by id, if the unit needs them.
pub(super) fn load(request: &LoadRequest) -> Option<Query<'static>> {
    if !request.with_travelers {
        return None;
    }
    let (tenants, clients) = request.clients.ids.columns();
    Some(Query::new(LOAD).bind(tenants).bind(clients))
}

/// Adds the rows of [`load`] to the states. They are sorted in roster order.
pub(super) fn fill(states: &mut States, rows: &[Row]) {
    let mut rosters: BTreeMap<(TenantId, ClientId), Vec<TravelerView>> = BTreeMap::new();
    for row in rows {
        let mut columns = Columns::of(row);
        let key = (TenantId(columns.take()), ClientId(columns.take()));
        let traveler = TravelerView {
            name: columns.take(),
            kind: columns.take(),
            age: columns.take(),
            email: columns.take(),
            phone: columns.take(),
        };
        rosters.entry(key).or_default().push(traveler);
    }
    for ((tenant, client_id), travelers) in rosters {
        if let Some(state) = states.get_mut(&tenant) {
            state.rosters.load(client_id, Roster { client_id, travelers });
        }
    }
}

/// One traveler with its client and its position in the roster.
#[derive(Clone, Copy)]
struct Place<'s> {
    client: ClientId,
    position: i16,
    traveler: &'s TravelerView,
}

/// Deletes the travelers that new and changed rosters replace.
pub(super) fn delete(states: &States) -> Option<Query<'_>> {
    let new_or_changed = rows(states, |state| state.rosters.new_or_changed());
    write_rows!(DELETE, new_or_changed, |tenant, roster| [tenant, roster.client_id.0])
}

/// Writes new and changed rosters.
pub(super) fn insert(states: &States) -> Option<Query<'_>> {
    let places: Vec<(Uuid, Place<'_>)> = rows(states, |state| state.rosters.new_or_changed().flat_map(places));
    write_rows!(INSERT, places, |tenant, place| [
        tenant,
        place.client.0,
        place.position,
        place.traveler.name.as_str(),
        place.traveler.kind.as_str(),
        place.traveler.age,
        place.traveler.email.as_deref(),
        place.traveler.phone.as_deref(),
    ])
}

fn places(roster: &Roster) -> impl Iterator<Item = Place<'_>> {
    let place = |(position, traveler)| Place { client: roster.client_id, position, traveler };
    (0_i16..).zip(&roster.travelers).map(place)
}
