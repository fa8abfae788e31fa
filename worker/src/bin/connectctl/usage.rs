//! `connectctl usage`: metered records writes of the current month (D23).

use crate::arguments::OfTenant;
use crate::context::Context;
use crate::lookup;
use crate::output::Show;
use crate::rows::{self, FromRow};
use chrono::{Datelike as _, NaiveDate};
use clap::Args;
use common::clock;
use serde::Serialize;
use tokio_postgres::Row;

const OF_MONTH: &str = "-- usage_counters.of_month
SELECT $2::date AS month, COALESCE(u.writes, 0) AS writes, t.monthly_quota
FROM tenants t LEFT JOIN usage_counters u ON u.tenant_id = t.tenant_id AND u.month = $2
WHERE t.slug = $1";

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  connectctl usage --tenant acme")]
pub(crate) struct Wanted {
    #[command(flatten)]
    tenant: OfTenant,
}

#[derive(Serialize)]
struct Usage {
    month: String,
    writes: i64,
    quota: Option<i64>,
}

impl FromRow for Usage {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        Ok(Self {
            month: row.try_get::<_, NaiveDate>("month")?.format("%Y-%m").to_string(),
            writes: row.try_get("writes")?,
            quota: row.try_get("monthly_quota")?,
        })
    }
}

impl Show for Usage {
    const COLUMNS: &'static [&'static str] = &["Month", "Writes", "Quota"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.month.clone()),
            Some(self.writes.to_string()),
            self.quota.map(|quota| quota.to_string()),
        ]
    }
}

pub(crate) async fn run(wanted: Wanted, context: &Context) -> anyhow::Result<()> {
    let today = clock::now().date_naive();
    let month = today.with_day(1).unwrap_or(today);
    let slug = &wanted.tenant.slug;
    let usage: Option<Usage> = rows::one(context, OF_MONTH, &[slug, &month]).await?;
    context.output.one(&usage.ok_or_else(|| lookup::no_tenant(slug))?)
}
