//! `connectctl discovery`: what a traveller said they look for, a record for each trip.

use crate::arguments::{Limit, OfClient};
use crate::context::Context;
use crate::lookup;
use crate::output::Show;
use crate::rows::{self, FromRow};
use clap::Args;
use common::model::DiscoveryId;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::Row;

const NEWEST: &str = "-- discoveries.newest
SELECT d.discovery_id, d.discovery::text AS discovery, p.profile::text AS profile, p.essence
FROM discoveries d LEFT JOIN traveller_profiles p USING (tenant_id, client_id)
WHERE d.client_id = $2 AND d.tenant_id IS NOT DISTINCT FROM $1::uuid ORDER BY d.discovery_id DESC LIMIT $3";

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  connectctl discovery --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"
)]
pub(crate) struct Wanted {
    #[command(flatten)]
    of: OfClient,
    #[command(flatten)]
    limit: Limit,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Discovery {
    discovery_id: DiscoveryId,
    discovery: Option<Box<RawValue>>,
    /// The traveller's, the same in each record; null until something is known.
    profile: Option<Box<RawValue>>,
    essence: Option<String>,
}

impl FromRow for Discovery {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        Ok(Self {
            discovery_id: DiscoveryId(row.try_get("discovery_id")?),
            discovery: rows::raw(row.try_get("discovery")?)?,
            profile: rows::raw(row.try_get("profile")?)?,
            essence: row.try_get("essence")?,
        })
    }
}

impl Show for Discovery {
    const COLUMNS: &'static [&'static str] = &["Discovery id", "Discovery", "Profile", "Essence"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.discovery_id.to_string()),
            rows::raw_cell(self.discovery.as_deref()),
            rows::raw_cell(self.profile.as_deref()),
            self.essence.clone(),
        ]
    }
}

pub(crate) async fn run(wanted: Wanted, context: &Context) -> anyhow::Result<()> {
    let (tenant, client) = lookup::client(context, &wanted.of).await?;
    let records: Vec<Discovery> =
        rows::newest(context, NEWEST, &[&tenant.0, &client.0], &wanted.limit).await?;
    context.output.many(&records)
}
