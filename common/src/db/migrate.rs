//! Migrations, compiled in from `sql/`.

use refinery::{Migration, Runner, Target};
use std::collections::VecDeque;
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

/// The migrations that a database lacks, to be applied one by one. No other run is under way meanwhile: a second one waits
/// for the first one's [`end`](Self::end), or for the end of its session.
#[derive(Debug)]
pub struct Migrations<'a> {
    client: &'a mut Client,
    missing: VecDeque<Migration>,
}

impl<'a> Migrations<'a> {
    /// Waits for other runs and looks up what is missing.
    pub async fn begin(client: &'a mut Client) -> Result<Self, MigrateError> {
        client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await?;
        // Makes the table of the history where there is none, and refuses what has changed since it was applied.
        runner().set_target(Target::Version(0)).run_async(client).await?;
        let last = runner().get_last_applied_migration_async(client).await?;
        let last = last.map_or(0, |last| last.version());
        let known = runner();
        let mut missing: Vec<Migration> =
            known.get_migrations().iter().filter(|known| known.version() > last).cloned().collect();
        // They are embedded in the order in which the file system listed them.
        missing.sort_unstable_by_key(Migration::version);
        Ok(Self { client, missing: missing.into() })
    }

    /// How many are missing.
    pub fn left(&self) -> usize {
        self.missing.len()
    }

    /// The name of the next one, such as `V1__tables`.
    pub fn next_name(&self) -> Option<String> {
        self.missing.front().map(|next| format!("V{}__{}", next.version(), next.name()))
    }

    /// Applies the next one, in a transaction of its own.
    pub async fn apply_next(&mut self) -> Result<(), MigrateError> {
        if let Some(next) = self.missing.front() {
            runner().set_target(Target::Version(next.version())).run_async(self.client).await?;
            self.missing.pop_front();
        }
        Ok(())
    }

    /// Lets the next run begin.
    pub async fn end(self) -> Result<(), MigrateError> {
        self.client.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await?;
        Ok(())
    }
}

fn runner() -> Runner {
    embedded::migrations::runner()
}
