//! Trip discovery records and traveller profiles.

use super::{States, Wanted, query, unreadable, write_rows};
use crate::state::{Discovery, TravellerProfile};
use common::db::TxError;
use common::model::{ClientId, DiscoveryId, LeadId, TenantId};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

pub(super) const LOAD: &str = "
    -- discoveries.load
    SELECT tenant_id, discovery_id, client_id, lead_id, discovery::text, created_at, updated_at FROM discoveries
    WHERE (tenant_id, discovery_id) IN (
        SELECT * FROM unnest($1::uuid[], $2::uuid[])
        UNION ALL
        SELECT d.tenant_id, d.discovery_id FROM unnest($3::uuid[], $4::uuid[]) AS w (tenant_id, lead_id)
            JOIN discoveries d ON d.tenant_id = w.tenant_id AND d.lead_id = w.lead_id)";

pub(super) const LOAD_PROFILES: &str = "
    -- profiles.load
    SELECT tenant_id, client_id, profile::text, essence, updated_at
    FROM traveller_profiles JOIN unnest($1::uuid[], $2::uuid[]) AS wanted (tenant_id, client_id)
         USING (tenant_id, client_id)";

pub(super) const UPSERT: &str = "
    -- discoveries.upsert
    INSERT INTO discoveries (tenant_id, discovery_id, client_id, lead_id, discovery, created_at, updated_at)
    SELECT tenant_id, discovery_id, client_id, lead_id, discovery::json, created_at, updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::timestamptz[], $7::timestamptz[])
         AS new (tenant_id, discovery_id, client_id, lead_id, discovery, created_at, updated_at)
    ON CONFLICT (tenant_id, discovery_id) DO UPDATE
    SET discovery = excluded.discovery, updated_at = excluded.updated_at";

pub(super) const UPSERT_PROFILES: &str = "
    -- profiles.upsert
    INSERT INTO traveller_profiles (tenant_id, client_id, profile, essence, updated_at)
    SELECT tenant_id, client_id, profile::json, essence, updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[])
         AS new (tenant_id, client_id, profile, essence, updated_at)
    ON CONFLICT (tenant_id, client_id) DO UPDATE
    SET profile = excluded.profile, essence = excluded.essence, updated_at = excluded.updated_at";

/// Loads the records named, and those of the enquiries that are loaded.
pub(super) async fn load(
    tx: &Transaction<'_>,
    states: &States,
    wanted: &Wanted,
) -> Result<Vec<Row>, TxError> {
    if !wanted.client_discoveries {
        return Ok(Vec::new());
    }
    let (tenants, ids) = wanted.discoveries.columns();
    let (lead_tenants, leads) = super::load::leads_of(states);
    query(tx, LOAD, &[&tenants, &ids, &lead_tenants, &leads]).await
}

/// Loads the profiles of the clients that are loaded.
pub(super) async fn load_profiles(
    tx: &Transaction<'_>,
    states: &States,
    wanted: &Wanted,
) -> Result<Vec<Row>, TxError> {
    if !wanted.client_discoveries {
        return Ok(Vec::new());
    }
    let (tenants, clients) = super::load::clients_of(states);
    query(tx, LOAD_PROFILES, &[&tenants, &clients]).await
}

/// Takes in what [`load`] found.
pub(super) fn fill(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let Some(state) = states.get_mut(&TenantId(row.get("tenant_id"))) else { continue };
        let record = Discovery {
            id: DiscoveryId(row.get("discovery_id")),
            client_id: ClientId(row.get("client_id")),
            lead_id: LeadId(row.get("lead_id")),
            discovery: serde_json::from_str(row.get("discovery")).map_err(|_| unreadable("discovery"))?,
            created_at: row.get("created_at"),
            updated_at: row.get("updated_at"),
        };
        state.discoveries.load(record.id, record);
    }
    Ok(())
}

/// Takes in what [`load_profiles`] found.
pub(super) fn fill_profiles(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let Some(state) = states.get_mut(&TenantId(row.get("tenant_id"))) else { continue };
        let profile = TravellerProfile {
            client_id: ClientId(row.get("client_id")),
            profile: serde_json::from_str(row.get("profile")).map_err(|_| unreadable("profile"))?,
            essence: row.get("essence"),
            updated_at: row.get("updated_at"),
        };
        state.profiles.load(profile.client_id, profile);
    }
    Ok(())
}

/// Writes new and changed records.
pub(super) async fn upsert(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let touched = super::rows(states, |state| state.discoveries.touched());
    write_rows!(tx, UPSERT, touched, |record| [
        record.tenant,
        record.id.0,
        record.client_id.0,
        record.lead_id.0,
        record.discovery.to_string(),
        record.created_at,
        record.updated_at,
    ])
}

/// Writes new and changed profiles.
pub(super) async fn upsert_profiles(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let touched = super::rows(states, |state| state.profiles.touched());
    write_rows!(tx, UPSERT_PROFILES, touched, |profile| [
        profile.tenant,
        profile.client_id.0,
        profile.profile.to_string(),
        profile.essence.as_deref(),
        profile.updated_at,
    ])
}
