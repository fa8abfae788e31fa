//! Advisor actions that wait to be applied.

use super::{all, execute};
use crate::Result;
use common::broker::Message;
use common::model::TenantId;
use tokio_postgres::{GenericClient, Row, Transaction};

common::statements! {
    const PAGE = "-- advisor_actions.page
    SELECT number, properties, body FROM advisor_actions WHERE tenant_id = $1 AND number > $2 ORDER BY number LIMIT 1000";

    const ERASE = "-- advisor_actions.erase
    DELETE FROM advisor_actions WHERE tenant_id = $1 AND number = ANY($2)";
}

/// Some of a tenant's actions after that number, each with its number.
pub(crate) async fn page(on: &impl GenericClient, tenant: TenantId, after: i64) -> Result<Vec<(i64, Message)>> {
    let read = |row: &Row| Ok((row.try_get(0)?, Message::from_stored(row.try_get(1)?, row.try_get(2)?)));
    all(on, PAGE, &[&tenant.0, &after], read).await
}

/// Deletes actions, and returns their number.
pub(crate) async fn erase(tx: &Transaction<'_>, tenant: TenantId, numbers: &[i64]) -> Result<u64> {
    execute(tx, ERASE, &[&tenant.0, &numbers]).await
}
