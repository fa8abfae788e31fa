//! Where a statement gets its connection.

use common::db::{Client, Database, TxError};
use futures_util::future::select;
use std::pin::pin;

/// A pool, and another one for the time when all of its connections are in use.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionSource {
    pub(crate) pool: Database,
    pub(crate) overflow: Option<Database>,
}

impl From<Database> for ConnectionSource {
    fn from(pool: Database) -> Self {
        Self { pool, overflow: None }
    }
}

impl ConnectionSource {
    /// The first connection that is free.
    pub(crate) async fn client(&self) -> Result<Client, TxError> {
        let Some(overflow) = &self.overflow else { return self.pool.client().await };
        for pool in [&self.pool, overflow] {
            if let Some(client) = pool.free_client().await? {
                return Ok(client);
            }
        }
        select(pin!(self.pool.client()), pin!(overflow.client())).await.factor_first().0
    }

    /// Maximum number of connections at once.
    pub(crate) fn max_size(&self) -> usize {
        self.pool.max_size() + self.overflow.as_ref().map_or(0, Database::max_size)
    }
}
