//! Requests that the worker did not reply to.

use super::Finding;
use crate::{AdminError, overview};
use tokio_postgres::Client;

/// Requests of the last minutes that got 503 `processing_timeout`.
pub(super) async fn check(client: &Client) -> Result<Vec<Finding>, AdminError> {
    let hour = overview::last_hour(client, None).await?;
    let finding = overview::requests_without_reply(&hour).map(|text| {
        Finding::warning(
            text,
            format!(
                "Read /readyz of each worker, and restart those that do not respond; see the runbook, {}",
                overview::TIMED_OUT_SECTION
            ),
        )
    });
    Ok(finding.into_iter().collect())
}
