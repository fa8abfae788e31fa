//! The connections to the database. A request holds one for a limited time: a server that is stopped keeps its connections open, and
//! would have all of them otherwise.

use common::db::{Client as PooledClient, Database, PoolSettings, TxError};
use common::settings::DatabaseUrl;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

/// Connections. A page takes one.
const CONNECTIONS: usize = 6;
/// Longest wait for a connection.
const CONNECTION_WAIT: Duration = Duration::from_secs(3);
/// Longest statement: a report must not slow the intake.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest that a connection is held: a statement of the longest kind, and as long for the others and for slow responses.
const HELD_MAX: Duration = Duration::from_secs(10);

/// The connections of all requests.
pub(crate) struct ConsoleDatabase(Database);

impl ConsoleDatabase {
    pub(crate) fn new(url: &DatabaseUrl) -> Self {
        Self(Database::new(
            url,
            PoolSettings {
                name: "console",
                size: CONNECTIONS,
                wait: CONNECTION_WAIT,
                statement_timeout: STATEMENT_TIMEOUT,
                durable: true,
            },
        ))
    }

    /// Takes a connection for what [`DatabaseTime::limit`] runs.
    pub(crate) async fn lease(&self, time: &DatabaseTime) -> Result<Lease, TxError> {
        let client = self.0.client().await?;
        time.set(Some(Instant::now() + HELD_MAX));
        Ok(Lease { client: Some(client), time: time.clone() })
    }

    /// Whether the database works. Closes a connection that has hung while nobody used it.
    pub(crate) async fn is_writable(&self, within: Duration) -> bool {
        let is_writable = self.0.is_writable(within).await;
        Database::observe(std::slice::from_ref(&self.0));
        is_writable
    }
}

/// A connection, until it is dropped. One that was held for too long is closed then: it may hang.
pub(crate) struct Lease {
    client: Option<PooledClient>,
    time: DatabaseTime,
}

impl Deref for Lease {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client.as_ref().expect("it is there until the lease is dropped")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Client {
        self.client.as_mut().expect("it is there until the lease is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let is_late = self.time.set(None).is_some_and(|until| until <= Instant::now());
        if let Some(client) = self.client.take().filter(|_| is_late) {
            drop(PooledClient::take(client));
        }
    }
}

/// Until when a request may hold the connection that it has: at most one at a time, and none while it waits for something else.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatabaseTime(Arc<Mutex<Option<Instant>>>);

impl DatabaseTime {
    /// Runs `work`, which is dropped where it stands if it holds a connection for too long.
    pub(crate) async fn limit<T>(&self, work: impl Future<Output = T>) -> Result<T, TxError> {
        let (mut work, mut end) = (pin!(work), pin!(sleep(HELD_MAX)));
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            let Some(until) = *self.0.lock().unwrap_or_else(PoisonError::into_inner) else {
                return Poll::Pending;
            };
            if end.deadline() != until {
                end.as_mut().reset(until);
            }
            end.as_mut().poll(context).map(|()| Err(TxError::no_response()))
        })
        .await
    }

    /// Sets it, and returns what it was.
    fn set(&self, until: Option<Instant>) -> Option<Instant> {
        std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), until)
    }
}
