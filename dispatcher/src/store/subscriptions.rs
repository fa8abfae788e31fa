//! Subscriptions: who hears of what, where, signed with which secret.

use super::query;
use crate::fan_out::{Key, Subscription};
use chrono::{DateTime, Utc};
use common::db::TxError;
use deadpool_postgres::GenericClient;
use std::collections::HashMap;
use uuid::Uuid;

pub(super) const OF_TENANTS: &str = "
    -- subscriptions.of_tenants
    SELECT s.tenant_id, s.subscription_id, s.key_prefix, k.origin, s.event_types, s.paused_at IS NOT NULL
    FROM subscriptions s LEFT JOIN api_keys k ON k.tenant_id = s.tenant_id AND k.prefix = s.key_prefix
    WHERE s.tenant_id = ANY($1) AND s.removed_at IS NULL";

pub(super) const TARGETS: &str = "
    -- subscriptions.targets
    SELECT s.subscription_id, s.tenant_id, t.slug, s.url, s.secret_sealed,
           CASE WHEN s.old_secret_until > $2::timestamptz THEN s.old_secret_sealed END,
           s.paused_at IS NOT NULL, s.removed_at IS NOT NULL
    FROM subscriptions s JOIN tenants t USING (tenant_id)
    WHERE s.subscription_id = ANY($1::uuid[])";

/// Where a subscription's deliveries go.
#[derive(Clone, Debug)]
pub struct Target {
    /// The agency.
    pub tenant_id: Uuid,
    /// `X-Connect-Tenant`.
    pub slug: String,
    /// The receiver's URL as stored.
    pub url: String,
    /// Sealed signing secrets, the current one first; then the one before, while it is still of use.
    pub sealed: Vec<Vec<u8>>,
    /// Whether its deliveries wait.
    pub is_paused: bool,
    /// Whether its deliveries are dropped.
    pub is_removed: bool,
}

/// The subscriptions of agencies, without those that were removed.
pub async fn of_tenants(on: &impl GenericClient, tenants: &[Uuid]) -> Result<Vec<Subscription>, TxError> {
    let rows = query(on, OF_TENANTS, &[&tenants]).await?;
    let subscription = |row: &tokio_postgres::Row| Subscription {
        tenant_id: row.get(0),
        id: row.get(1),
        key: row.get::<_, Option<String>>(2).map(|prefix| Key { prefix, origin: row.get(3) }),
        event_types: row.get(4),
        is_paused: row.get(5),
    };
    Ok(rows.iter().map(subscription).collect())
}

/// Where the deliveries of subscriptions go at `now`, by the subscription's id.
pub async fn targets(
    on: &impl GenericClient,
    ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<HashMap<Uuid, Target>, TxError> {
    let rows = query(on, TARGETS, &[&ids, &now]).await?;
    let target = |row: &tokio_postgres::Row| {
        let (current, old): (Vec<u8>, Option<Vec<u8>>) = (row.get(4), row.get(5));
        let target = Target {
            tenant_id: row.get(1),
            slug: row.get(2),
            url: row.get(3),
            sealed: std::iter::once(current).chain(old).collect(),
            is_paused: row.get(6),
            is_removed: row.get(7),
        };
        (row.get(0), target)
    };
    Ok(rows.iter().map(target).collect())
}
