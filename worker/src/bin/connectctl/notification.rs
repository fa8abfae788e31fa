//! `connectctl notifications`: what members were told.

use crate::arguments::{Limit, OfTenant};
use crate::context::Context;
use crate::lookup;
use crate::output::Show;
use crate::rows::{self, FromRow};
use chrono::{DateTime, Utc};
use clap::Args;
use common::clock;
use common::model::LeadId;
use serde::Serialize;
use tokio_postgres::Row;
use uuid::Uuid;

const NEWEST: &str = "-- notifications.newest
SELECT at, recipient, kind, lead_id, text
FROM notifications WHERE tenant_id = $1 ORDER BY notification_id DESC LIMIT $2";

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  connectctl notifications --tenant acme --limit 20")]
pub(crate) struct Wanted {
    #[command(flatten)]
    tenant: OfTenant,
    #[command(flatten)]
    limit: Limit,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Notification {
    #[serde(serialize_with = "clock::serialize")]
    at: DateTime<Utc>,
    to: String,
    kind: String,
    lead_id: Option<LeadId>,
    text: String,
}

impl FromRow for Notification {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        Ok(Self {
            at: row.try_get("at")?,
            to: row.try_get("recipient")?,
            kind: row.try_get("kind")?,
            lead_id: row.try_get::<_, Option<Uuid>>("lead_id")?.map(LeadId),
            text: row.try_get("text")?,
        })
    }
}

impl Show for Notification {
    const COLUMNS: &'static [&'static str] = &["At", "To", "Kind", "Lead", "Text"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(clock::to_text(self.at)),
            Some(self.to.clone()),
            Some(self.kind.clone()),
            self.lead_id.map(|lead| lead.to_string()),
            Some(self.text.clone()),
        ]
    }
}

pub(crate) async fn run(wanted: Wanted, context: &Context) -> anyhow::Result<()> {
    let tenant = lookup::tenant(context, &wanted.tenant).await?;
    let told: Vec<Notification> = rows::newest(context, NEWEST, &[&tenant.0], &wanted.limit).await?;
    context.output.many(&told)
}
