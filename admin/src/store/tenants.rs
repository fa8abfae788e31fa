//! Tenants, their members and metered writes, and reports of ingest about refused requests.

use super::{all, execute, exists, one, read_row};
use crate::input::{AttentionEmail, EnquiryPrefix, MemberEmail, MonthlyQuota, Name, TenantSlug};
use crate::{AdminError, Result};
use chrono::{DateTime, NaiveDate, Utc};
use common::clock;
use common::model::TenantId;
use common::settings::Bound;
use serde::Serialize;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

/// A tenant to be created.
#[derive(Clone, Debug)]
pub struct NewTenant {
    /// What callers send as `X-Connect-Tenant`.
    pub slug: TenantSlug,
    /// Full name, such as `Acme Travel`.
    pub name: Name,
    /// First part of the enquiry numbers.
    pub enquiry_prefix: EnquiryPrefix,
    /// Whether Traveller Discovery is on.
    pub discovery: bool,
    /// Records writes allowed in a calendar month (UTC).
    pub monthly_quota: MonthlyQuota,
    /// Records reads allowed per second and key, at least 1.
    pub reads_per_second: i32,
}

/// The settings of a tenant to be changed; `None` leaves a setting as it is.
#[derive(Clone, Debug, Default)]
pub struct TenantChanges {
    /// Whether Traveller Discovery is on.
    pub discovery: Option<bool>,
    /// Records writes allowed in a calendar month (UTC).
    pub monthly_quota: Option<MonthlyQuota>,
    /// Records reads allowed per second and key, at least 1.
    pub reads_per_second: Option<i32>,
    /// Who gets mails about what needs attention.
    pub attention_email: Option<AttentionEmail>,
}

/// A tenant with its settings.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// UUIDv7 (D18).
    pub id: TenantId,
    /// What callers send as `X-Connect-Tenant`.
    pub slug: String,
    /// Full name, such as `Acme Travel`.
    pub name: String,
    /// First part of the enquiry numbers.
    pub enquiry_prefix: String,
    /// Whether Traveller Discovery is on.
    pub discovery: bool,
    /// Records writes allowed in a calendar month (UTC); null for no limit.
    pub monthly_quota: Option<i64>,
    /// Records reads allowed per second and key.
    pub reads_per_second: i32,
    /// Who gets mails about what needs attention; null for nobody.
    pub attention_email: Option<String>,
    /// When it was created.
    #[serde(serialize_with = "clock::serialize")]
    pub created_at: DateTime<Utc>,
}

/// A member of a tenant.
#[derive(Clone, Debug, Serialize)]
pub struct Member {
    /// Lower case.
    pub email: String,
    /// Full name, which the API shows for an owner.
    pub name: String,
    /// Whether new leads are routed to them.
    pub active: bool,
}

/// The records writes of a calendar month (UTC).
#[derive(Clone, Debug, Serialize)]
pub struct Usage {
    /// Such as `2026-05`.
    pub month: String,
    /// Number of metered writes.
    pub writes: i64,
    /// Number of allowed writes; null for no limit.
    pub quota: Option<i64>,
}

/// What the copies of ingest have reported of a tenant and queue.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    /// Slug of the tenant.
    pub tenant: String,
    /// The queue, without the prefix.
    pub queue: String,
    /// Backlog units that wait to be applied; 0 when the reports are outdated.
    pub waiting: i64,
    /// Requests that were refused in the last second; 0 when the reports are outdated.
    pub refused: i64,
    /// When the last report was made.
    #[serde(serialize_with = "clock::serialize")]
    pub reported_at: DateTime<Utc>,
}

common::statements! {
    const CREATE = "-- tenants.create
    INSERT INTO tenants (tenant_id, slug, name, enquiry_prefix, discovery_enabled, monthly_quota, reads_per_second, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

    /// Another address is to be told anew what needs attention.
    const SET = "-- tenants.set
    WITH readdressed AS MATERIALIZED (
        SELECT tenant_id FROM tenants WHERE slug = $1 AND $6 AND attention_email IS DISTINCT FROM $7
    ), forgotten AS (
        DELETE FROM attention_mails WHERE tenant_id = (SELECT tenant_id FROM readdressed)
    )
    UPDATE tenants SET
        discovery_enabled = COALESCE($2, discovery_enabled),
        monthly_quota = CASE WHEN $3 THEN $4 ELSE monthly_quota END,
        reads_per_second = COALESCE($5, reads_per_second),
        attention_email = CASE WHEN $6 THEN $7 ELSE attention_email END
    WHERE slug = $1
    RETURNING tenant_id, slug, name, enquiry_prefix, discovery_enabled, monthly_quota, reads_per_second, attention_email,
        created_at";

    const LIST = "-- tenants.list
    SELECT tenant_id, slug, name, enquiry_prefix, discovery_enabled, monthly_quota, reads_per_second, attention_email,
        created_at
    FROM tenants ORDER BY tenant_id";

    const SETTINGS = "-- tenants.settings
    SELECT tenant_id, slug, name, enquiry_prefix, discovery_enabled, monthly_quota, reads_per_second, attention_email,
        created_at
    FROM tenants WHERE slug = $1";

    const FIND = "-- tenants.find
    SELECT tenant_id FROM tenants WHERE slug = $1";

    /// Nothing is changed if the tenant has `$5` other active members, or ten times as many with former ones. Several that are added at once may exceed it.
    const ADD_MEMBER = "-- members.add
    INSERT INTO members (tenant_id, email, name, active, created_at)
    SELECT $1, $2, $3, true, $4
    WHERE (SELECT greatest(count(*) FILTER (WHERE active), count(*) / 10) FROM members WHERE tenant_id = $1 AND email <> $2) < $5::bigint
    ON CONFLICT (tenant_id, email) DO UPDATE SET name = excluded.name, active = true
    RETURNING email, name, active";

    const REMOVE_MEMBER = "-- members.remove
    UPDATE members SET active = false WHERE tenant_id = $1 AND email = $2 RETURNING email, name, active";

    const LIST_MEMBERS = "-- members.list
    SELECT email, name, active FROM members WHERE tenant_id = $1 AND email > $2 ORDER BY email LIMIT $3";

    const HAS_ACTIVE_MEMBER = "-- members.has_active
    SELECT FROM members WHERE tenant_id = $1 AND active LIMIT 1";

    const USAGE_OF_MONTH = "-- usage_counters.of_month
    SELECT $2::date AS month, COALESCE(u.writes, 0) AS writes, t.monthly_quota
    FROM tenants t LEFT JOIN usage_counters u ON u.tenant_id = t.tenant_id AND u.month = $2
    WHERE t.slug = $1";

    const USAGE_SINCE = "-- usage_counters.since
    SELECT month, writes FROM usage_counters WHERE tenant_id = $1 AND month >= $2 ORDER BY month";

    /// Lists the tenants of the last ten minutes. An ingest reports once a second while it refuses requests. A report older
    /// than ten seconds is outdated: the work is applied, or its ingest has ended.
    const PRESSURE = "-- intake_pressure.list
    SELECT t.slug, p.queue,
           coalesce(sum(p.waiting) FILTER (WHERE p.reported_at > now() - interval '10 seconds'), 0)::bigint AS waiting,
           coalesce(sum(p.refused) FILTER (WHERE p.reported_at > now() - interval '10 seconds'), 0)::bigint AS refused,
           max(p.reported_at) AS reported_at
    FROM intake_pressure p JOIN tenants t ON t.tenant_id = p.tenant_id
    WHERE p.reported_at > now() - interval '10 minutes'
    GROUP BY t.slug, p.queue
    ORDER BY refused, t.slug, p.queue";
}

pub(crate) async fn create(tx: &Transaction<'_>, id: TenantId, new: &NewTenant) -> Result<()> {
    let (slug, name, prefix) = (new.slug.as_str(), new.name.as_str(), new.enquiry_prefix.as_str());
    let quota = new.monthly_quota.limit();
    let parameters: [&(dyn ToSql + Sync); 8] =
        [&id.0, &slug, &name, &prefix, &new.discovery, &quota, &new.reads_per_second, &clock::database_now()];
    execute(tx, CREATE, &parameters).await?;
    Ok(())
}

pub(crate) async fn set(tx: &Transaction<'_>, slug: &str, changes: &TenantChanges) -> Result<Option<Tenant>> {
    let TenantChanges { discovery, monthly_quota, reads_per_second, attention_email } = changes;
    let quota = monthly_quota.and_then(MonthlyQuota::limit);
    let (has_email, email) = (attention_email.is_some(), attention_email.as_ref().and_then(AttentionEmail::address));
    let parameters: super::Parameters<'_> =
        &[&slug, discovery, &monthly_quota.is_some(), &quota, reads_per_second, &has_email, &email];
    one(tx, SET, parameters, tenant).await
}

pub(crate) async fn list(client: &Client) -> Result<Vec<Tenant>> {
    all(client, LIST, &[], tenant).await
}

pub(crate) async fn settings(client: &Client, slug: &str) -> Result<Option<Tenant>> {
    one(client, SETTINGS, &[&slug], tenant).await
}

/// The id of the tenant with this slug.
pub async fn find(on: &impl GenericClient, slug: &str) -> Result<TenantId> {
    let found = one(on, FIND, &[&slug], |row| Ok(TenantId(row.try_get("tenant_id")?))).await?;
    found.ok_or_else(|| AdminError::TenantNotFound(slug.to_owned()))
}

/// The usage of the month that begins on `month`; `None` if there is no such tenant.
pub(crate) async fn usage_of_month(client: &Client, tenant: &str, month: NaiveDate) -> Result<Option<Usage>> {
    one(client, USAGE_OF_MONTH, &[&tenant, &month], usage).await
}

/// The writes of each month from `first` on that has any.
pub(crate) async fn usage_since(client: &Client, tenant: TenantId, first: NaiveDate) -> Result<Vec<(NaiveDate, i64)>> {
    all(client, USAGE_SINCE, &[&tenant.0, &first], |row| Ok((row.try_get("month")?, row.try_get("writes")?))).await
}

fn usage(row: &Row) -> Result<Usage> {
    Ok(Usage {
        month: row.try_get::<_, NaiveDate>("month")?.format("%Y-%m").to_string(),
        writes: row.try_get("writes")?,
        quota: row.try_get("monthly_quota")?,
    })
}

pub(crate) async fn pressures(client: &Client) -> Result<Vec<Pressure>> {
    all(client, PRESSURE, &[], pressure).await
}

fn pressure(row: &Row) -> Result<Pressure> {
    Ok(read_row!(row => Pressure { tenant = "slug", queue, waiting, refused, reported_at }))
}

fn tenant(row: &Row) -> Result<Tenant> {
    Ok(read_row!(row => Tenant {
        id = "tenant_id" as TenantId, slug, name, enquiry_prefix, discovery = "discovery_enabled",
        monthly_quota, reads_per_second, attention_email, created_at
    }))
}

/// Adds or changes a member; `None` if the tenant has as many others as `bound` allows.
pub(crate) async fn add_member(
    tx: &Transaction<'_>, tenant: TenantId, email: &MemberEmail, name: &Name, bound: Bound,
) -> Result<Option<Member>> {
    let (now, most) = (clock::database_now(), i64::from(bound.most));
    one(tx, ADD_MEMBER, &[&tenant.0, &email.as_str(), &name.as_str(), &now, &most], member).await
}

pub(crate) async fn remove_member(
    tx: &Transaction<'_>, tenant: TenantId, email: &MemberEmail,
) -> Result<Option<Member>> {
    one(tx, REMOVE_MEMBER, &[&tenant.0, &email.as_str()], member).await
}

pub(crate) async fn has_active_member(client: &Client, tenant: TenantId) -> Result<bool> {
    exists(client, HAS_ACTIVE_MEMBER, &[&tenant.0]).await
}

/// The first members of a tenant after an email.
pub(crate) async fn list_members(client: &Client, tenant: TenantId, after: &str, limit: u32) -> Result<Vec<Member>> {
    all(client, LIST_MEMBERS, &[&tenant.0, &after, &i64::from(limit)], member).await
}

fn member(row: &Row) -> Result<Member> {
    Ok(Member { email: row.try_get("email")?, name: row.try_get("name")?, active: row.try_get("active")? })
}
