//! Sign-ins by OpenID Connect that began a session.

use super::execute;
use crate::AdminError;
use crate::console::TokenHash;
use chrono::{DateTime, Utc};
use tokio_postgres::Transaction;

common::statements! {
    /// Of two sign-ins with the same state, the second one adds no row.
    const ADD = "-- console_spent_sign_ins.add
    INSERT INTO console_spent_sign_ins (state_hash, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING";

    const REMOVE_EXPIRED = "-- console_spent_sign_ins.remove_expired
    DELETE FROM console_spent_sign_ins WHERE expires_at <= $1";
}

/// Marks a sign-in as spent. Returns `false` if it was spent already.
pub(crate) async fn add(
    tx: &Transaction<'_>,
    state: &TokenHash,
    expires_at: DateTime<Utc>,
) -> Result<bool, AdminError> {
    Ok(execute(tx, ADD, &[&state.as_bytes(), &expires_at]).await? == 1)
}

pub(crate) async fn remove_expired(tx: &Transaction<'_>, now: DateTime<Utc>) -> Result<(), AdminError> {
    execute(tx, REMOVE_EXPIRED, &[&now]).await?;
    Ok(())
}
