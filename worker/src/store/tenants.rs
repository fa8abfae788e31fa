//! Agencies and their members.

use super::{States, Wanted, query};
use crate::state::{Member, Tenant, TenantState};
use common::db::TxError;
use common::model::TenantId;
use deadpool_postgres::Transaction;
use std::collections::HashMap;
use uuid::Uuid;

pub(super) const LOAD: &str = "
    -- tenants.load
    SELECT tenant_id, slug, enquiry_prefix, discovery_enabled FROM tenants WHERE tenant_id = ANY($1)";

pub(super) const FIND: &str = "
    -- tenants.of_slug
    SELECT tenant_id FROM tenants WHERE slug = $1";

// The order of routing (D16).
pub(super) const LOAD_MEMBERS: &str = "
    -- members.load
    SELECT tenant_id, email, name, active FROM members WHERE tenant_id = ANY($1)
    ORDER BY tenant_id, created_at, email";

/// The agency of a slug.
pub async fn find(tx: &Transaction<'_>, slug: &str) -> Result<Option<TenantId>, TxError> {
    let rows = query(tx, FIND, &[&slug]).await?;
    Ok(rows.first().map(|row| TenantId(row.get(0))))
}

/// An empty state for each agency of the unit.
pub(super) async fn load(tx: &Transaction<'_>, wanted: &Wanted) -> Result<States, TxError> {
    let ids: Vec<Uuid> = wanted.tenants.iter().copied().collect();
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&ids];
    let (tenants, members) =
        futures_util::future::try_join(query(tx, LOAD, &parameters), query(tx, LOAD_MEMBERS, &parameters))
            .await?;
    let mut by_tenant: HashMap<Uuid, (Vec<Member>, Vec<Member>)> = HashMap::new();
    for row in members {
        let (active, former) = by_tenant.entry(row.get(0)).or_default();
        let member = Member { email: row.get(1), name: row.get(2) };
        if row.get(3) { active.push(member) } else { former.push(member) }
    }
    let states = tenants.into_iter().map(|row| {
        let id: Uuid = row.get(0);
        let tenant = Tenant {
            id: TenantId(id),
            slug: row.get(1),
            enquiry_prefix: row.get(2),
            discovery_enabled: row.get(3),
        };
        let (active, former) = by_tenant.remove(&id).unwrap_or_default();
        let mut state = TenantState::new(tenant, active);
        state.former_members = former;
        (TenantId(id), state)
    });
    Ok(states.collect())
}
