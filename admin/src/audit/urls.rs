//! Which URLs receivers had before: subscriptions have the present one only.

use super::{AuditAction, AuditFilter, AuditRecord};
use crate::{Result, store};
use chrono::{DateTime, Utc};
use common::model::TenantId;
use tokio_postgres::Client;
use uuid::Uuid;

/// Maximum number of changes that are considered, the newest ones.
const CHANGES_MAX: u32 = 1_000;

/// The latest changes of the URLs of a tenant's receivers, oldest first.
pub(crate) struct UrlChanges(Vec<AuditRecord>);

impl UrlChanges {
    /// The changes from a time on.
    pub(crate) async fn load(client: &Client, tenant: TenantId, from: DateTime<Utc>) -> Result<Self> {
        let action = Some(AuditAction::SetSubscriptionUrl.as_str().to_owned());
        let filter = AuditFilter { from: Some(from), action, ..AuditFilter::default() };
        Ok(Self(store::audit_records::newest(client, Some(tenant), &filter, CHANGES_MAX).await?.items))
    }

    fn of(&self, subscription: Uuid) -> impl DoubleEndedIterator<Item = &AuditRecord> {
        let id = subscription.to_string();
        self.0.iter().filter(move |change| change.target.starts_with(&id))
    }

    /// When the URL of a subscription was last changed.
    pub(crate) fn last(&self, subscription: Uuid) -> Option<DateTime<Utc>> {
        self.of(subscription).next_back().map(|change| change.at)
    }

    /// The URL that a subscription had at a time, if it was changed afterwards.
    pub(crate) fn before(&self, subscription: Uuid, at: DateTime<Utc>) -> Option<&str> {
        let change = self.of(subscription).find(|change| change.at > at)?;
        Some(change.target.split_once(" from=")?.1.split_once(" to=")?.0)
    }
}
