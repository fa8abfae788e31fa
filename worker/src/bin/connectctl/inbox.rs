//! `connectctl inbox`: the thread of an enquiry.

use crate::arguments::{Limit, OfLead};
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

const NEWEST: &str = "-- inbox_messages.newest
SELECT at, kind, text, changes::text AS changes
FROM inbox_messages WHERE tenant_id = $1 AND lead_id = $2 ORDER BY message_id DESC LIMIT $3";

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  connectctl inbox --tenant acme --lead 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"
)]
pub(crate) struct Wanted {
    #[command(flatten)]
    of: OfLead,
    #[command(flatten)]
    limit: Limit,
}

#[derive(Serialize)]
struct Message {
    #[serde(serialize_with = "clock::serialize")]
    at: DateTime<Utc>,
    kind: String,
    text: Option<String>,
    changes: Option<Box<RawValue>>,
}

impl FromRow for Message {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        Ok(Self {
            at: row.try_get("at")?,
            kind: row.try_get("kind")?,
            text: row.try_get("text")?,
            changes: rows::raw(row.try_get("changes")?)?,
        })
    }
}

impl Show for Message {
    const COLUMNS: &'static [&'static str] = &["At", "Kind", "Text", "Changes"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(clock::to_text(self.at)),
            Some(self.kind.clone()),
            self.text.clone(),
            rows::raw_cell(self.changes.as_deref()),
        ]
    }
}

pub(crate) async fn run(wanted: Wanted, context: &Context) -> anyhow::Result<()> {
    let (tenant, lead) = lookup::lead(context, &wanted.of).await?;
    let messages: Vec<Message> = rows::newest(context, NEWEST, &[&tenant.0, &lead.0], &wanted.limit).await?;
    context.output.many(&messages)
}
