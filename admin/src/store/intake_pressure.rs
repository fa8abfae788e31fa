//! Reports of ingest about refused requests.

use super::all;
use crate::AdminError;
use crate::pressure::Pressure;
use tokio_postgres::{Client, Row};

// Lists the tenants of the last ten minutes. An ingest reports once a second while it refuses requests. A report older
// than ten seconds is outdated: the work is applied, or its ingest has ended.
common::statements! {
    const LIST = "-- intake_pressure.list
    SELECT t.slug, p.queue,
           coalesce(sum(p.waiting) FILTER (WHERE p.reported_at > now() - interval '10 seconds'), 0)::bigint AS waiting,
           coalesce(sum(p.refused) FILTER (WHERE p.reported_at > now() - interval '10 seconds'), 0)::bigint AS refused,
           max(p.reported_at) AS reported_at
    FROM intake_pressure p JOIN tenants t ON t.tenant_id = p.tenant_id
    WHERE p.reported_at > now() - interval '10 minutes'
    GROUP BY t.slug, p.queue
    ORDER BY refused, t.slug, p.queue";
}

pub(crate) async fn list(client: &Client) -> Result<Vec<Pressure>, AdminError> {
    all(client, LIST, &[], pressure).await
}

fn pressure(row: &Row) -> Result<Pressure, AdminError> {
    Ok(Pressure {
        tenant: row.try_get("slug")?,
        queue: row.try_get("queue")?,
        waiting: row.try_get("waiting")?,
        refused: row.try_get("refused")?,
        reported_at: row.try_get("reported_at")?,
    })
}
