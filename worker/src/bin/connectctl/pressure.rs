//! `connectctl pressure`: agencies whose requests are refused because too much of their work waits to be applied.

use crate::context::Context;
use crate::output::Show;
use crate::rows::{self, FromRow};
use chrono::{DateTime, Utc};
use clap::Args;
use common::clock;
use serde::Serialize;
use tokio_postgres::Row;

// The agencies of the last ten minutes. An ingest reports once a second while it refuses: what it reported some seconds ago
// does not wait any more, or its ingest has ended.
const LIST: &str = "-- intake_pressure.list
SELECT t.slug, p.queue,
       coalesce(sum(p.waiting) FILTER (WHERE p.reported_at > now() - interval '10 seconds'), 0)::bigint AS waiting,
       coalesce(sum(p.refused) FILTER (WHERE p.reported_at > now() - interval '10 seconds'), 0)::bigint AS refused,
       max(p.reported_at) AS reported_at
FROM intake_pressure p JOIN tenants t ON t.tenant_id = p.tenant_id
WHERE p.reported_at > now() - interval '10 minutes'
GROUP BY t.slug, p.queue
ORDER BY refused, t.slug, p.queue";

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  connectctl pressure")]
pub(crate) struct Wanted;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pressure {
    tenant: String,
    queue: String,
    waiting: i64,
    refused: i64,
    #[serde(serialize_with = "clock::serialize")]
    reported_at: DateTime<Utc>,
}

impl FromRow for Pressure {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        Ok(Self {
            tenant: row.try_get("slug")?,
            queue: row.try_get("queue")?,
            waiting: row.try_get("waiting")?,
            refused: row.try_get("refused")?,
            reported_at: row.try_get("reported_at")?,
        })
    }
}

impl Show for Pressure {
    const COLUMNS: &'static [&'static str] = &["Tenant", "Queue", "Waiting", "Refused", "Reported at"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.tenant.clone()),
            Some(self.queue.clone()),
            Some(self.waiting.to_string()),
            Some(self.refused.to_string()),
            Some(clock::to_text(self.reported_at)),
        ]
    }
}

pub(crate) async fn run(Wanted: Wanted, context: &Context) -> anyhow::Result<()> {
    let pressures: Vec<Pressure> = rows::all(context, LIST, &[]).await?;
    context.output.many(&pressures)
}
