//! The outbox: envelopes, and test events.

use super::{execute, one};
use crate::Result;
use common::clock;
use common::event::TEST_EVENT_TYPE;
use common::model::TenantId;
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

common::statements! {
    const ENVELOPE = "-- outbox.envelope
    SELECT envelope::text FROM outbox WHERE tenant_id = $1 AND event_id = $2";

    const INSERT_TEST = "-- outbox.insert_test
    WITH new AS (
        INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at, subscription_id)
        VALUES ($1, $2, $3, $4, $5::text::json, $6, $7)
    )
    INSERT INTO outbox_pending (tenant_id, event_id, created_at) VALUES ($1, $2, $6)";

    /// A lost notification costs nothing but time.
    const NOTIFY = "-- outbox.notify
    SELECT pg_notify('connect_outbox', $1)";
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

pub(crate) async fn envelope(client: &Client, tenant: TenantId, event: Uuid) -> Result<Option<String>> {
    one(client, ENVELOPE, &[&tenant.0, &event], |row| Ok(row.try_get(0)?)).await
}

pub(crate) async fn insert_test(tx: &Transaction<'_>, row: &TestEventRow<'_>) -> Result<()> {
    let TestEventRow { tenant, event, subscription, origin, envelope } = row;
    let parameters: super::Parameters<'_> =
        &[&tenant.0, event, &TEST_EVENT_TYPE, origin, envelope, &clock::database_now(), subscription];
    execute(tx, INSERT_TEST, parameters).await?;
    // The slots with new events, as bits.
    execute(tx, NOTIFY, &[&(1_u64 << tenant.slot()).to_string()]).await?;
    Ok(())
}
