//! Subscriptions: which events they receive, at which URL, signed with which secrets.

use super::query;
use crate::fan_out::Subscription;
use chrono::{DateTime, Utc};
use common::db::TxError;
use deadpool_postgres::GenericClient;
use std::collections::HashMap;
use uuid::Uuid;

common::statements! {
    const TARGETS = "
    -- subscriptions.targets
    SELECT s.subscription_id, s.tenant_id, t.slug, s.url_sealed, s.secret_sealed,
           CASE WHEN s.old_secret_until > $2::timestamptz THEN s.old_secret_sealed END,
           s.paused_at IS NOT NULL, s.removed_at IS NOT NULL
    FROM unnest($1::uuid[]) AS wanted (subscription_id)
    CROSS JOIN LATERAL (SELECT * FROM subscriptions s WHERE s.subscription_id = wanted.subscription_id LIMIT 1) AS s
    CROSS JOIN LATERAL (SELECT slug FROM tenants t WHERE t.tenant_id = s.tenant_id LIMIT 1) AS t";
}

/// A subscription with its receiver.
#[derive(Clone, Debug)]
pub(crate) struct Subscriber {
    /// Which events it receives.
    pub subscription: Subscription,
    /// The receiver of its deliveries.
    pub target: Target,
}

/// The receiver of a subscription's deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub tenant_id: Uuid,
    /// `X-Connect-Tenant`.
    pub slug: String,
    /// The receiver's URL, sealed.
    pub url_sealed: Vec<u8>,
    /// Sealed signing secrets: the current one, then the previous one during a rotation's overlap.
    pub sealed: Vec<Vec<u8>>,
    /// Whether its deliveries are parked.
    pub is_paused: bool,
    /// Whether its deliveries are dropped.
    pub is_removed: bool,
}

/// Loads the receivers of subscriptions at `now`, by the subscription's id.
pub(crate) async fn load_targets(
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
            url_sealed: row.get(3),
            sealed: std::iter::once(current).chain(old).collect(),
            is_paused: row.get(6),
            is_removed: row.get(7),
        };
        (row.get(0), target)
    };
    Ok(rows.iter().map(target).collect())
}
