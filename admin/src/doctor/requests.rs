//! Requests that got no reply in time.

use super::Finding;
use crate::{AdminError, overview};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Requests of the last minutes that got 503 `processing_timeout`. A schema that does not count them yet has a finding of its own.
pub(super) async fn check(client: &Client) -> Result<Vec<Finding>, AdminError> {
    let hour = match overview::last_hour(client, None).await {
        Ok(hour) => hour,
        Err(error) if is_old_schema(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let finding = overview::timed_out_requests(&hour).map(|text| {
        Finding::warning(
            text,
            format!(
                "Start workers if none consumes the queues; read /readyz of each worker and restart those that do not respond; check \
                 RabbitMQ. See the runbook, {}",
                overview::TIMED_OUT_SECTION
            ),
        )
    });
    Ok(finding.into_iter().collect())
}

fn is_old_schema(error: &AdminError) -> bool {
    let AdminError::Database(error) = error else { return false };
    error.code().is_some_and(|code| [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN].contains(code))
}
