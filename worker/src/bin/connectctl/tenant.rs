//! `connectctl tenant`: agencies and their settings.

use crate::arguments::OfTenant;
use crate::context::Context;
use crate::output::Show;
use crate::rows::{self, FromRow};
use crate::{fault, lookup, text};
use anyhow::anyhow;
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use common::clock;
use common::model::TenantId;
use serde::Serialize;
use std::str::FromStr;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

const CREATE: &str = "-- tenants.create
INSERT INTO tenants (tenant_id, slug, name, enquiry_prefix, discovery_enabled, monthly_quota, reads_per_second, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

const SET: &str = "-- tenants.set
UPDATE tenants SET
    discovery_enabled = COALESCE($2, discovery_enabled),
    monthly_quota = CASE WHEN $3 THEN $4 ELSE monthly_quota END,
    reads_per_second = COALESCE($5, reads_per_second)
WHERE slug = $1
RETURNING tenant_id, slug, name, enquiry_prefix, discovery_enabled, monthly_quota, reads_per_second, created_at";

const LIST: &str = "-- tenants.list
SELECT tenant_id, slug, name, enquiry_prefix, discovery_enabled, monthly_quota, reads_per_second, created_at
FROM tenants ORDER BY tenant_id";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an agency
    #[command(
        after_help = "Example:\n  connectctl tenant create --slug acme --name 'Acme Travel' --discovery"
    )]
    Create(Create),
    /// Change an agency's settings
    #[command(
        after_help = "Example:\n  connectctl tenant set --tenant acme --monthly-quota none --reads-per-second 50"
    )]
    Set(Set),
    /// List the agencies with their settings
    #[command(after_help = "Example:\n  connectctl tenant list --json")]
    List,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// What callers send as X-Connect-Tenant: lower-case letters, digits and hyphens
    #[arg(long)]
    slug: String,
    /// Full name
    #[arg(long)]
    name: String,
    /// First part of the enquiry numbers: upper-case letters and digits
    #[arg(long, value_name = "PREFIX", default_value = "ENQ")]
    enquiry_prefix: String,
    /// Turn Traveller Discovery on
    #[arg(long)]
    discovery: bool,
    /// Records writes allowed in a calendar month (UTC), or none for no limit
    #[arg(long, value_name = "N", default_value = "none")]
    monthly_quota: Quota,
    /// Records reads allowed per second and key
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..))]
    reads_per_second: i32,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    #[command(flatten)]
    tenant: OfTenant,
    #[command(flatten)]
    changes: Changes,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Changes {
    /// Turn Traveller Discovery on or off
    #[arg(long, value_name = "true|false")]
    discovery: Option<bool>,
    /// Records writes allowed in a calendar month (UTC), or none for no limit
    #[arg(long, value_name = "N|none")]
    monthly_quota: Option<Quota>,
    /// Records reads allowed per second and key
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    reads_per_second: Option<i32>,
}

/// Writes a month; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quota(Option<i64>);

impl FromStr for Quota {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        let number = text.parse().ok().filter(|number| *number >= 0);
        number.map(|number| Self(Some(number))).ok_or("must be a whole number, or none for no limit")
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tenant {
    id: TenantId,
    slug: String,
    name: String,
    enquiry_prefix: String,
    discovery: bool,
    monthly_quota: Option<i64>,
    reads_per_second: i32,
    #[serde(serialize_with = "clock::serialize")]
    created_at: DateTime<Utc>,
}

impl FromRow for Tenant {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        Ok(Self {
            id: TenantId(row.try_get("tenant_id")?),
            slug: row.try_get("slug")?,
            name: row.try_get("name")?,
            enquiry_prefix: row.try_get("enquiry_prefix")?,
            discovery: row.try_get("discovery_enabled")?,
            monthly_quota: row.try_get("monthly_quota")?,
            reads_per_second: row.try_get("reads_per_second")?,
            created_at: row.try_get("created_at")?,
        })
    }
}

impl Show for Tenant {
    const COLUMNS: &'static [&'static str] =
        &["Slug", "Name", "Enquiries", "Discovery", "Monthly quota", "Reads/s", "Created at", "Id"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.slug.clone()),
            Some(self.name.clone()),
            Some(self.enquiry_prefix.clone()),
            Some(if self.discovery { "on" } else { "off" }.to_owned()),
            self.monthly_quota.map(|quota| quota.to_string()),
            Some(self.reads_per_second.to_string()),
            Some(clock::to_text(self.created_at)),
            Some(self.id.to_string()),
        ]
    }
}

#[derive(Serialize)]
struct Created {
    id: TenantId,
    slug: String,
}

impl Show for Created {
    const COLUMNS: &'static [&'static str] = &["Slug", "Id"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.slug.clone()), Some(self.id.to_string())]
    }
}

pub(crate) async fn run(command: Command, context: &Context) -> anyhow::Result<()> {
    match command {
        Command::Create(new) => context.output.one(&create(new, context).await?),
        Command::Set(set) => context.output.one(&change(&set, context).await?),
        Command::List => context.output.many(&rows::all::<Tenant>(context, LIST, &[]).await?),
    }
}

async fn create(new: Create, context: &Context) -> anyhow::Result<Created> {
    let id = TenantId(Uuid::now_v7());
    let slug = text::slug(&new.slug)?;
    let (name, prefix) = (text::name(&new.name)?, text::enquiry_prefix(&new.enquiry_prefix)?);
    let Quota(quota) = new.monthly_quota;
    let parameters: [&(dyn ToSql + Sync); 8] =
        [&id.0, &slug, &name, &prefix, &new.discovery, &quota, &new.reads_per_second, &clock::now()];
    context.database.execute(CREATE, &parameters).await.map_err(|error| {
        if fault::violates(&error, "tenants_slug_key") {
            anyhow!("tenant {slug:?} exists")
        } else {
            error.into()
        }
    })?;
    Ok(Created { id, slug: slug.to_owned() })
}

async fn change(set: &Set, context: &Context) -> anyhow::Result<Tenant> {
    let Changes { discovery, monthly_quota, reads_per_second } = &set.changes;
    let quota = monthly_quota.and_then(|Quota(quota)| quota);
    let slug = &set.tenant.slug;
    let changed =
        rows::one(context, SET, &[slug, discovery, &monthly_quota.is_some(), &quota, reads_per_second])
            .await?;
    changed.ok_or_else(|| lookup::no_tenant(slug))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_a_number_or_none() {
        assert_eq!("none".parse(), Ok(Quota(None)));
        assert_eq!("0".parse(), Ok(Quota(Some(0))));
        for wrong in ["", "-1", "1.5", "None", "99999999999999999999"] {
            assert!(wrong.parse::<Quota>().is_err(), "{wrong}");
        }
    }
}
