//! The connections to the database. An agency has a part of them, so that its slow pages are not everybody's. A request holds one for
//! a limited time: a server that is stopped keeps its connections open, and would have all of them otherwise.

use crate::under_way::UnderWay;
use admin::Result;
use common::db::{Client as PooledClient, Database, PoolSettings, TxError};
use common::settings::DatabaseUrl;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Client;

/// Connections for pages and changes, which take one each.
const CONNECTIONS: usize = 5;
/// Of these, how many may be of one agency, or of all operators: two agencies with slow pages leave one to others.
const CONNECTIONS_OF_ONE: usize = 2;
/// Connections that find out who sends a request, or sign somebody in. They wait for no page.
const SIGN_IN_CONNECTIONS: usize = 2;
/// Requests of one agency, or of all operators, that wait for a connection: as many as the console has connections to browsers.
const WAITING: usize = 256;
/// Longest wait for a connection.
const CONNECTION_WAIT: Duration = Duration::from_secs(3);
/// Longest statement: a report must not slow the intake.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest that a connection is held: a statement of the longest kind, and as long for the others and for slow responses.
const HELD_MAX: Duration = Duration::from_secs(10);

/// The connections of all requests.
pub(crate) struct ConsoleDatabase {
    pages: Database,
    sign_ins: Database,
    of_agencies: UnderWay,
}

impl ConsoleDatabase {
    pub(crate) fn new(url: &DatabaseUrl) -> Self {
        let pool = |size| {
            let (wait, statement_timeout) = (CONNECTION_WAIT, STATEMENT_TIMEOUT);
            Database::new(url, PoolSettings { name: "console", size, wait, statement_timeout, durable: true })
        };
        Self {
            pages: pool(CONNECTIONS),
            sign_ins: pool(SIGN_IN_CONNECTIONS),
            of_agencies: UnderWay::new(CONNECTIONS_OF_ONE, WAITING),
        }
    }

    /// Takes a connection that is for sign-ins, for what [`DatabaseTime::limit`] runs.
    pub(crate) async fn sign_in(&self, time: &DatabaseTime) -> Result<Lease, TxError> {
        Ok(Lease::begin(self.sign_ins.client().await?, time, None))
    }

    /// Takes one of an agency, for what [`DatabaseTime::limit`] runs. Operators, who have none, are like an agency.
    pub(crate) async fn of_agency(&self, slug: Option<&str>, time: &DatabaseTime) -> Result<Lease, TxError> {
        let place = timeout(CONNECTION_WAIT, self.of_agencies.enter(slug.unwrap_or_default())).await;
        let place = place.ok().and_then(Result::ok);
        let place = place
            .ok_or_else(|| TxError::Unavailable("all connections of the agency to Postgres are in use".to_owned()))?;
        Ok(Lease::begin(self.pages.client().await?, time, Some(place)))
    }

    /// Runs a step of something that goes on without a connection, which must not end where the step does.
    pub(crate) async fn step<T>(
        &self, slug: Option<&str>, work: impl AsyncFnOnce(&mut Client) -> Result<T>,
    ) -> Result<T> {
        let time = DatabaseTime::default();
        let step = async { work(&mut *self.of_agency(slug, &time).await?).await };
        time.limit(step).await?
    }

    /// Whether the database works. Closes connections that have hung while nobody used them; that all are used is no failure.
    pub(crate) async fn is_writable(&self, within: Duration) -> bool {
        let (is_writable, _) = tokio::join!(self.sign_ins.is_writable(within), self.pages.is_writable(within));
        Database::observe(&[self.pages.clone(), self.sign_ins.clone()]);
        is_writable
    }
}

/// A connection, until it is dropped. One that was held for too long is closed then: it may hang.
pub(crate) struct Lease {
    client: Option<PooledClient>,
    time: DatabaseTime,
    _place: Option<OwnedSemaphorePermit>,
}

impl Lease {
    fn begin(client: PooledClient, time: &DatabaseTime, place: Option<OwnedSemaphorePermit>) -> Self {
        time.set(Some(Instant::now() + HELD_MAX));
        Self { client: Some(client), time: time.clone(), _place: place }
    }
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
            let Some(until) = *self.0.lock() else {
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
        std::mem::replace(&mut self.0.lock(), until)
    }
}
