//! Trip discovery records and traveler profiles. The record of a lead is loaded with the lead.

use super::{ClientReferences, Columns, LoadRequest, States, bind_found, found, rows, unreadable, write_rows};
use crate::state::{Discovery, TravellerProfile};
use common::db::{Query, TxError};
use common::model::{ClientId, DiscoveryId, LeadId, TenantId};
use tokio_postgres::Row;

common::statements! {
    const LOAD_NAMED = "
    -- discoveries.load_named
    SELECT d.tenant_id, d.lead_id, d.discovery_id, d.client_id, d.discovery::text, d.created_at, d.updated_at
    FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, discovery_id)
    CROSS JOIN LATERAL (SELECT * FROM discoveries d
                        WHERE d.tenant_id = w.tenant_id AND d.discovery_id = w.discovery_id LIMIT 1) AS d";

    const LOAD_PROFILES = concat!(
    "
    -- profiles.load
    WITH ",
    found!(),
    "
    SELECT p.tenant_id, p.client_id, p.profile::text, p.essence, p.updated_at
    FROM found
    CROSS JOIN LATERAL (SELECT * FROM traveller_profiles p
                        WHERE p.tenant_id = found.tenant_id AND p.client_id = found.client_id LIMIT 1) AS p"
    );

    const UPSERT = "
    -- discoveries.upsert
    INSERT INTO discoveries (tenant_id, discovery_id, client_id, lead_id, discovery, created_at, updated_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[]::json[], $6::timestamptz[],
                         $7::timestamptz[])
    ON CONFLICT (tenant_id, discovery_id) DO UPDATE
    SET discovery = excluded.discovery, updated_at = excluded.updated_at";

    const UPSERT_PROFILES = "
    -- profiles.upsert
    INSERT INTO traveller_profiles (tenant_id, client_id, profile, essence, updated_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]::json[], $4::text[], $5::timestamptz[])
    ON CONFLICT (tenant_id, client_id) DO UPDATE
    SET profile = excluded.profile, essence = excluded.essence, updated_at = excluded.updated_at";
}

pub(super) fn load_named(request: &LoadRequest) -> Option<Query<'static>> {
    if request.discoveries.is_empty() {
        return None;
    }
    let (tenants, ids) = request.discoveries.columns();
    Some(Query::new(LOAD_NAMED).bind(tenants).bind(ids))
}

pub(super) fn load_profiles(request: &LoadRequest) -> Option<Query<'static>> {
    if !request.with_discoveries {
        return None;
    }
    let query = Query::new(LOAD_PROFILES);
    Some(bind_found(query, &request.related, request.events, &ClientReferences::default()))
}

/// Reads the discovery record of a lead; `None` if it has none.
pub(super) fn read_discovery(lead_id: LeadId, columns: &mut Columns<'_>) -> Result<Option<Discovery>, TxError> {
    let Some(id) = columns.take::<Option<_>>() else { return Ok(None) };
    Ok(Some(Discovery {
        id: DiscoveryId(id),
        client_id: ClientId(columns.take()),
        lead_id,
        discovery: serde_json::from_str(columns.take()).map_err(|_| unreadable("discovery"))?,
        created_at: columns.take(),
        updated_at: columns.take(),
    }))
}

/// Adds the rows of [`load_named`] to the states.
pub(super) fn fill_named(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let mut columns = Columns::of(row);
        let Some(state) = states.get_mut(&TenantId(columns.take())) else { continue };
        let lead_id = LeadId(columns.take());
        if let Some(record) = read_discovery(lead_id, &mut columns)? {
            state.discoveries.load(record.id, record);
        }
    }
    Ok(())
}

/// Adds the rows of [`load_profiles`] to the states.
pub(super) fn fill_profiles(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let mut columns = Columns::of(row);
        let Some(state) = states.get_mut(&TenantId(columns.take())) else { continue };
        let profile = TravellerProfile {
            client_id: ClientId(columns.take()),
            profile: serde_json::from_str(columns.take()).map_err(|_| unreadable("profile"))?,
            essence: columns.take(),
            updated_at: columns.take(),
        };
        state.profiles.load(profile.client_id, profile);
    }
    Ok(())
}

/// Writes new and changed records, whose clients are locked.
pub(super) fn upsert(states: &States) -> Option<Query<'_>> {
    let new_or_changed = rows(states, |state| state.discoveries.new_or_changed());
    write_rows!(UPSERT, new_or_changed, |tenant, record| [
        tenant,
        record.id.0,
        record.client_id.0,
        record.lead_id.0,
        record.discovery.to_string(),
        record.created_at,
        record.updated_at,
    ])
}

/// Writes new and changed profiles, whose clients are locked.
pub(super) fn upsert_profiles(states: &States) -> Option<Query<'_>> {
    let new_or_changed = rows(states, |state| state.profiles.new_or_changed());
    write_rows!(UPSERT_PROFILES, new_or_changed, |tenant, profile| [
        tenant,
        profile.client_id.0,
        profile.profile.to_string(),
        profile.essence.as_deref(),
        profile.updated_at,
    ])
}
