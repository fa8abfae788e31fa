//! `connectctl timeline`: every accepted event about a client (D14).

use crate::arguments::{Limit, OfClient};
use crate::context::Context;
use crate::lookup;
use crate::output::Show;
use crate::rows::{self, FromRow};
use chrono::{DateTime, Utc};
use clap::Args;
use common::clock;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::Row;

const NEWEST: &str = "-- timeline.newest
SELECT event_id, event_type, occurred_at, origin, payload::text AS payload
FROM timeline WHERE tenant_id = $1 AND client_id = $2 ORDER BY entry_id DESC LIMIT $3";

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  connectctl timeline --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"
)]
pub(crate) struct Wanted {
    #[command(flatten)]
    of: OfClient,
    #[command(flatten)]
    limit: Limit,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    event_id: String,
    event_type: String,
    #[serde(serialize_with = "clock::serialize")]
    occurred_at: DateTime<Utc>,
    origin: String,
    payload: Option<Box<RawValue>>,
}

impl FromRow for Entry {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        Ok(Self {
            event_id: row.try_get("event_id")?,
            event_type: row.try_get("event_type")?,
            occurred_at: row.try_get("occurred_at")?,
            origin: row.try_get("origin")?,
            payload: rows::raw(row.try_get("payload")?)?,
        })
    }
}

impl Show for Entry {
    const COLUMNS: &'static [&'static str] = &["Occurred at", "Event", "Origin", "Event id", "Payload"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(clock::to_text(self.occurred_at)),
            Some(self.event_type.clone()),
            Some(self.origin.clone()),
            Some(self.event_id.clone()),
            rows::raw_cell(self.payload.as_deref()),
        ]
    }
}

pub(crate) async fn run(wanted: Wanted, context: &Context) -> anyhow::Result<()> {
    let (tenant, client) = lookup::client(context, &wanted.of).await?;
    let entries: Vec<Entry> = rows::newest(context, NEWEST, &[&tenant.0, &client.0], &wanted.limit).await?;
    context.output.many(&entries)
}
