//! Migrations, compiled in from `sql/`.

use thiserror::Error;
use tokio_postgres::Client;

mod embedded {
    refinery::embed_migrations!("../sql");
}

/// Keeps two runs apart; any number will do.
const LOCK: i64 = 0x636f_6e6e_6563_7401;

/// Why the schema isn't up to date.
#[derive(Debug, Error)]
pub enum MigrateError {
    /// The database refused something.
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
    /// A migration failed, or one that was applied has changed since.
    #[error(transparent)]
    Migration(#[from] refinery::Error),
}

/// Applies what is missing and returns the names of what it applied. Safe to run twice and from two places at once.
pub async fn migrate(client: &mut Client) -> Result<Vec<String>, MigrateError> {
    client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await?;
    let report = embedded::migrations::runner().run_async(client).await;
    client.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await?;
    Ok(report?
        .applied_migrations()
        .iter()
        .map(|migration| format!("V{}__{}", migration.version(), migration.name()))
        .collect())
}
