//! Tenants and their members.

use super::{Columns, LoadRequest, States};
use crate::state::{Member, Tenant, TenantState};
use chrono::{DateTime, Utc};
use common::db::{Database, Query, TxError};
use common::model::TenantId;
use tokio_postgres::Row;
use uuid::Uuid;

common::statements! {
    // The lock is shared by units of work, and excludes erasures until the transaction ends: it comes before all other locks
    // and reads. Tenants are given and locked in the order of their ids.
    const LOAD = "
    -- tenants.load
    SELECT t.tenant_id, t.slug, t.enquiry_prefix, t.discovery_enabled,
           EXISTS (SELECT FROM subscriptions s WHERE s.tenant_id = t.tenant_id AND s.removed_at IS NULL),
           e.last_erasure_at, e.sealed_key
    FROM unnest($1::uuid[]) AS w (tenant_id)
    CROSS JOIN LATERAL share_erasure_lock(w.tenant_id) AS e
    CROSS JOIN LATERAL (SELECT * FROM tenants t WHERE t.tenant_id = w.tenant_id LIMIT 1) AS t";

    const FIND = "
    -- tenants.of_slug
    SELECT tenant_id FROM tenants WHERE slug = $1";

    // In the order of routing (D16).
    const LOAD_MEMBERS = "
    -- members.load
    SELECT m.tenant_id, m.email, m.name, m.active
    FROM unnest($1::uuid[]) AS w (tenant_id)
    CROSS JOIN LATERAL (SELECT * FROM members m WHERE m.tenant_id = w.tenant_id OFFSET 0) AS m
    ORDER BY m.tenant_id, m.created_at, m.email";
}

pub(crate) async fn find_tenant(database: &Database, slug: &str) -> Result<Option<TenantId>, TxError> {
    let rows = database.query(FIND.as_str(), &[&slug]).await?;
    Ok(rows.first().map(|row| TenantId(row.get(0))))
}

/// Loads the tenants of the unit.
pub(super) fn load(request: &LoadRequest) -> Query<'static> {
    Query::new(LOAD).bind(ids(request))
}

/// Loads the members of the unit's tenants, if the unit needs them.
pub(super) fn load_members(request: &LoadRequest) -> Option<Query<'static>> {
    request.with_members.then(|| Query::new(LOAD_MEMBERS).bind(ids(request)))
}

fn ids(request: &LoadRequest) -> Vec<Uuid> {
    request.tenants.iter().copied().collect()
}

/// An empty state for each tenant that [`load`] found.
pub(super) fn states(rows: &[Row]) -> States {
    let state = |row: &Row| {
        let mut columns = Columns::of(row);
        let tenant = Tenant {
            id: TenantId(columns.take()),
            slug: columns.take(),
            enquiry_prefix: columns.take(),
            discovery_enabled: columns.take(),
            has_subscriptions: columns.take(),
        };
        (tenant.id, TenantState::new(tenant, Vec::new()))
    };
    rows.iter().map(state).collect()
}

#[derive(Clone, Debug)]
pub(crate) struct TenantErasures {
    /// When a person was erased last.
    pub(crate) last_at: DateTime<Utc>,
    /// The sealed key of the hashes of identities.
    pub(crate) sealed_key: Vec<u8>,
}

/// The tenants that have erased people.
pub(super) fn erasures(rows: &[Row]) -> Vec<(TenantId, TenantErasures)> {
    let read = |row: &Row| {
        let (last_at, sealed_key) = (row.get::<_, Option<_>>(5)?, row.get::<_, Option<_>>(6)?);
        Some((TenantId(row.get(0)), TenantErasures { last_at, sealed_key }))
    };
    rows.iter().filter_map(read).collect()
}

/// Adds the rows of [`load_members`] to the states.
pub(super) fn fill_members(states: &mut States, rows: &[Row]) {
    for row in rows {
        let mut columns = Columns::of(row);
        let Some(state) = states.get_mut(&TenantId(columns.take())) else { continue };
        let member = Member { email: columns.take(), name: columns.take() };
        if columns.take() { state.members.push(member) } else { state.former_members.push(member) }
    }
}
