//! Records of operators' actions.

use super::{execute, read_row};
use crate::{Newest, Result};
use chrono::{DateTime, TimeZone as _, Utc};
use common::clock;
use common::model::{TenantId, searchable};
use serde::Serialize;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Row};
use uuid::Uuid;

/// An action of an operator.
#[derive(Clone, Debug, Serialize)]
pub struct AuditRecord {
    /// Identifies the record; the records are listed in the order of their ids.
    #[serde(skip)]
    pub id: Uuid,
    /// By the clock of the machine on which the operator worked.
    #[serde(serialize_with = "clock::serialize")]
    pub at: DateTime<Utc>,
    /// The name of the [`Actor`].
    pub who: String,
    /// `connectctl` or `console`.
    pub interface: String,
    /// Such as `key.revoke`.
    pub action: String,
    /// What it was done to, such as the prefix of a key.
    pub target: String,
    /// Slug of the tenant; null for actions on all tenants.
    pub tenant: Option<String>,
}

/// Which records are listed.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Slug of a tenant: only actions on its objects.
    pub tenant: Option<String>,
    /// Only actions at or after this time.
    pub from: Option<DateTime<Utc>>,
    /// Only actions before this time.
    pub to: Option<DateTime<Utc>>,
    /// Only actions whose name begins with this text, such as `key.`.
    pub action: Option<String>,
    /// Only actions of people whose name contains this text, in any case.
    pub who: Option<String>,
    /// Only records before the one with this id: the next page begins before the first record of this one.
    pub before: Option<Uuid>,
}

/// The columns of a record `a`.
macro_rules! columns {
    () => {
        "a.audit_id, a.at, a.who, a.interface, a.action, a.target, t.slug"
    };
}

/// The name as Rust's [`searchable`] writes it. The database's own `lc_ctype` may know no letters beyond ASCII.
macro_rules! folded_who {
    () => {
        "replace(lower(upper(normalize(who) COLLATE \"und-x-icu\")), 'ς', 'σ')"
    };
}

common::statements! {
    const ADD = "-- audit_records.add
    INSERT INTO audit_records (tenant_id, audit_id, at, who, interface, action, target)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";

    /// A filter by action or person reads the records of the range, newest first, until enough are found. The planner would expect
    /// fewer rows than the limit, and read and sort the whole range: so it does not see the limit, and `IS NOT UNKNOWN` makes it
    /// expect that nearly all rows match.
    const OF_TENANT = concat!("-- audit_records.of_tenant
    SELECT ", columns!(), "
    FROM (SELECT * FROM audit_records WHERE tenant_id = $1 AND audit_id >= $2 AND audit_id < $3
          AND NULLIF(starts_with(action, $4) AND position($5 IN ", folded_who!(), ") > 0, false) IS NOT UNKNOWN
          ORDER BY audit_id DESC LIMIT (SELECT $6::bigint)) AS a
    LEFT JOIN LATERAL (SELECT slug FROM tenants t WHERE t.tenant_id = a.tenant_id LIMIT 1) AS t ON true
    ORDER BY a.audit_id DESC");

    const OF_ALL = concat!("-- audit_records.of_all
    SELECT ", columns!(), "
    FROM (SELECT * FROM audit_records
          WHERE uuid_send(audit_id) >= uuid_send($1) AND uuid_send(audit_id) < uuid_send($2)
          AND NULLIF(starts_with(action, $3) AND position($4 IN ", folded_who!(), ") > 0, false) IS NOT UNKNOWN
          ORDER BY uuid_send(audit_id) DESC LIMIT (SELECT $5::bigint)) AS a
    LEFT JOIN LATERAL (SELECT slug FROM tenants t WHERE t.tenant_id = a.tenant_id LIMIT 1) AS t ON true
    ORDER BY a.audit_id DESC");
}

/// Adds a record with the id `id`, which has its time. Without a tenant it is about all of them.
pub(crate) async fn add(
    on: &impl GenericClient, id: Uuid, (who, interface): (&str, &str), (action, target): (&str, &str),
    tenant: Option<TenantId>,
) -> Result<()> {
    let tenant = tenant.map_or_else(Uuid::nil, |tenant| tenant.0);
    let parameters: [&(dyn ToSql + Sync); 7] = [&tenant, &id, &time(id), &who, &interface, &action, &target];
    execute(on, ADD, &parameters).await?;
    Ok(())
}

/// The newest records that a filter selects.
pub(crate) async fn newest(
    client: &Client, tenant: Option<TenantId>, filter: &AuditFilter, limit: u32,
) -> Result<Newest<AuditRecord>> {
    let (from, to) = filter.ids();
    // An empty text begins every action, and is in every name.
    let (action, who) = (filter.action.as_deref().unwrap_or(""), searchable(filter.who.as_deref().unwrap_or("")));
    match tenant {
        Some(tenant) => super::newest(client, OF_TENANT, &[&tenant.0, &from, &to, &action, &who], limit, record).await,
        None => super::newest(client, OF_ALL, &[&from, &to, &action, &who], limit, record).await,
    }
}

fn record(row: &Row) -> Result<AuditRecord> {
    Ok(read_row!(row => AuditRecord { id = "audit_id", at, who, interface, action, target, tenant = "slug" }))
}

/// The time of a UUIDv7, in whole milliseconds.
fn time(id: Uuid) -> DateTime<Utc> {
    let millis = i64::try_from(id.as_u128() >> 80).unwrap_or_default();
    Utc.timestamp_millis_opt(millis).single().unwrap_or_default()
}
