//! `api_key_requests`: how many requests each key has made in each hour.

use super::prepared;
use chrono::{DateTime, Utc};
use common::db::{Client, column};
use common::model::{KeyPrefix, TenantId};
use tokio_postgres::{Error, Row};

common::statements! {
    /// Adds counts to the rows of the hour, and returns the added counts with the tenants of their keys. Keys that do not exist are
    /// skipped.
    const ADD = "-- api_key_requests.add
    WITH counts AS MATERIALIZED (
        SELECT k.tenant_id, c.prefix, c.accepted, c.refused
        FROM unnest($1::text[], $3::bigint[], $4::bigint[]) AS c (prefix, accepted, refused)
        CROSS JOIN LATERAL (SELECT tenant_id FROM api_keys k WHERE k.prefix = c.prefix LIMIT 1) AS k
    ), added AS (
        INSERT INTO api_key_requests AS stored (tenant_id, prefix, hour, accepted, refused)
        SELECT tenant_id, prefix, $2::timestamptz, accepted, refused FROM counts ORDER BY tenant_id, prefix
        ON CONFLICT (tenant_id, prefix, hour)
        DO UPDATE SET accepted = stored.accepted + excluded.accepted, refused = stored.refused + excluded.refused
    )
    SELECT tenant_id, accepted, refused FROM counts";
}

/// Requests of a key.
#[derive(Clone, Debug)]
pub(crate) struct KeyRequests {
    pub(crate) key: KeyPrefix,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
}

/// Requests of a tenant with one key: accepted and refused.
pub(crate) type TenantRequests = (TenantId, u64, u64);

/// Adds counts of different keys to those of an hour. The statement locks rows in the order of keys, so that those of
/// several ingests cannot deadlock. Returns the counts of keys that exist, with their tenants.
pub(crate) async fn add(
    client: &Client, hour: DateTime<Utc>, counts: &[KeyRequests],
) -> Result<Vec<TenantRequests>, Error> {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let prefixes = column(counts, |count| count.key.as_str());
    let accepted = column(counts, |count| number(count.accepted));
    let refused = column(counts, |count| number(count.refused));
    let statement = prepared(client, ADD).await?;
    let rows = client.query(&statement, &[&prefixes, &hour, &accepted, &refused]).await?;
    let count = |count: i64| u64::try_from(count).unwrap_or_default();
    let read = |row: &Row| {
        let accepted = count(row.try_get("accepted")?);
        Ok((TenantId(row.try_get("tenant_id")?), accepted, count(row.try_get("refused")?)))
    };
    rows.iter().map(read).collect()
}
