//! Test events in the outbox.

use super::execute;
use crate::AdminError;
use common::clock;
use common::event::TEST_EVENT_TYPE;
use common::model::TenantId;
use tokio_postgres::Transaction;
use uuid::Uuid;

common::statements! {
    const INSERT = "-- outbox.insert_test
    INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at, subscription_id)
    VALUES ($1, $2, $3, $4, $5::text::json, $6, $7)";
}

/// A test event to be written to the outbox, for one subscription.
#[derive(Debug)]
pub(crate) struct TestEventRow<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) event: Uuid,
    /// The only subscription that receives it.
    pub(crate) subscription: Uuid,
    pub(crate) origin: &'a str,
    /// JSON.
    pub(crate) envelope: &'a str,
}

pub(crate) async fn insert(tx: &Transaction<'_>, row: &TestEventRow<'_>) -> Result<(), AdminError> {
    let TestEventRow { tenant, event, subscription, origin, envelope } = row;
    let parameters: super::Parameters<'_> =
        &[&tenant.0, event, &TEST_EVENT_TYPE, origin, envelope, &clock::now(), subscription];
    execute(tx, INSERT, parameters).await?;
    Ok(())
}
