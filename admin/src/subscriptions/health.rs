//! How well receivers work, by the attempts of the last 24 hours.

use crate::deliveries::first_id;
use crate::{AdminError, store};
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::model::TenantId;
use std::collections::HashMap;
use tokio_postgres::Client;
use uuid::Uuid;

/// Maximum number of deliveries of a subscription whose attempts are considered, the newest ones.
pub const HEALTH_DELIVERIES: i64 = 500;
/// Events of this time are considered.
const WINDOW: TimeDelta = TimeDelta::hours(24);

/// What the attempts of a receiver show: of events of the last 24 hours, and of at most [`HEALTH_DELIVERIES`] deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverHealth {
    /// Number of attempts.
    pub attempts: i64,
    /// Attempts with a 2xx response.
    pub succeeded: i64,
    /// Duration of the median attempt, in milliseconds.
    pub median_ms: i32,
    /// 95 % of the attempts took no longer, in milliseconds.
    pub slow_ms: i32,
    /// When the last failed attempt was made, and why it failed.
    pub last_failure: Option<(DateTime<Utc>, String)>,
}

/// The health of the receivers of a tenant's subscriptions. Those without attempts are missing.
pub async fn health(
    client: &Client,
    tenant: TenantId,
    subscriptions: &[Uuid],
) -> Result<HashMap<Uuid, ReceiverHealth>, AdminError> {
    let since = clock::now() - WINDOW;
    store::receiver_health::load(client, tenant, subscriptions, (first_id(since), since), HEALTH_DELIVERIES)
        .await
}
