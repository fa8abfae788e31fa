//! How a pool opens its connections: with failover between the servers of its URL, and a line in the log when a connection cannot be
//! opened or is lost.

use super::connect::{ConnectError, connect};
use crate::limited;
use crate::log_limit::LogLimit;
use crate::settings::DatabaseUrl;
use deadpool_postgres::Connect;
use futures_util::future::BoxFuture;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config};

/// Limits the log lines about connections that were lost, and that could not be opened.
static FAILED: LogLimit<2> = LogLimit::new();
const LOST: usize = 0;
const NOT_OPENED: usize = 1;

/// Opens the connections of a pool, with failover between the servers of its URL.
pub(super) struct FailoverConnect {
    url: DatabaseUrl,
    within: Duration,
}

impl FailoverConnect {
    /// `within` as for [`connect`].
    pub(super) fn new(url: &DatabaseUrl, within: Duration) -> Self {
        Self { url: url.clone(), within }
    }
}

impl Connect for FailoverConnect {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        let config = config.clone();
        Box::pin(async move {
            let (client, connection) = match connect(&self.url, &config, self.within).await {
                Ok(connected) => connected,
                Err(failure @ ConnectError::Driver { .. }) => {
                    let why = failure.to_string();
                    limited!(
                        FAILED[NOT_OPENED],
                        warn,
                        error = why,
                        "connecting to Postgres failed; the next use of the pool retries"
                    );
                    let ConnectError::Driver { error, .. } = failure else { unreachable!("matched above") };
                    return Err(error);
                }
                // There is no error of the driver to return for a timeout, so this waits forever. The pool's own timeout is no longer
                // than `longest_connect`: it ends the wait and reports that it has passed.
                Err(ConnectError::TimedOut) => std::future::pending().await,
            };
            let driver = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    limited!(FAILED[LOST], warn, %error, "database connection lost; the pool replaces it when needed");
                }
            });
            Ok((client, driver))
        })
    }
}
