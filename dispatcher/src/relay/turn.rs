//! Whose turn it is to relay, and what wakes the relay up.

use common::db::{Session, TxError};
use common::sealed::Secret;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The lock's key: "webhooks" in ASCII.
const LOCK: i64 = i64::from_be_bytes(*b"webhooks");
/// How often a copy whose turn it isn't tries again.
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// How often the session is used, at least: it shows whether it is alive, and to the server that this copy is.
const ALIVE: Duration = Duration::from_secs(1);
/// Longest that Postgres may take to answer.
const WITHIN: Duration = Duration::from_secs(2);
/// The session listens. One whose program is stuck is ended by the server, so that another copy can take its turn.
const BEGIN: &str = "
    SET idle_session_timeout = '5s';
    SET statement_timeout = '2s';
    LISTEN connect_outbox";

/// A turn: a session lock on a connection of its own. It ends with the connection.
#[derive(Debug)]
pub(super) struct Turn {
    session: Session,
    used: Instant,
    was_called: bool,
}

impl Turn {
    /// Waits for the turn. Fails when the connection does.
    pub(super) async fn take(url: &Secret) -> Result<Self, TxError> {
        let session = Session::connect(url, "dispatcher_relay", WITHIN).await?;
        session.client().batch_execute(BEGIN).await?;
        let statement = session.client().prepare("SELECT pg_try_advisory_lock($1)").await?;
        while !session.client().query_one(&statement, &[&LOCK]).await?.get::<_, bool>(0) {
            sleep(TRY_AGAIN).await;
        }
        Ok(Self { session, used: Instant::now(), was_called: true })
    }

    /// Waits until somebody calls, for `longest` at most. Fails once the turn is over.
    pub(super) async fn wait(&mut self, longest: Duration) -> Result<(), TxError> {
        self.was_called |= timeout(longest, self.session.notified()).await.is_ok();
        if self.used.elapsed() >= ALIVE || self.session.client().is_closed() {
            let late = |_| TxError::Unavailable("no answer in time".to_owned());
            timeout(WITHIN, self.session.client().simple_query("")).await.map_err(late)??;
            self.used = Instant::now();
        }
        Ok(())
    }

    /// Whether somebody called since this was last asked.
    pub(super) const fn was_called(&mut self) -> bool {
        std::mem::replace(&mut self.was_called, false)
    }
}
