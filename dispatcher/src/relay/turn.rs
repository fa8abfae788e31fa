//! Whose turn it is to relay, and what wakes the relay up.

use common::db::{Session, TxError};
use common::settings::DatabaseUrl;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// The lock's key: "webhooks" in ASCII.
const LOCK: i64 = i64::from_be_bytes(*b"webhooks");
/// How often a copy whose turn it isn't tries again.
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// How often the session is used: it shows whether it is alive, and to the server that this copy is.
const ALIVE: Duration = Duration::from_secs(1);
/// Longest that Postgres may take to answer.
const WITHIN: Duration = Duration::from_secs(2);
/// Where the operator's commands call for what is parked.
const PARKED: &str = "connect_parked";
/// The session listens. One whose program is stuck is ended by the server, so that another copy can take its turn.
const BEGIN: &str = "
    SET idle_session_timeout = '5s';
    SET statement_timeout = '2s';
    LISTEN connect_outbox;
    LISTEN connect_parked";

/// A turn: a session lock on a connection of its own. It ends with the connection.
#[derive(Debug)]
pub(super) struct Turn {
    session: Arc<Session>,
    keeper: JoinHandle<()>,
}

impl Turn {
    /// Waits for the turn. Fails when the connection does.
    pub(super) async fn take(url: &DatabaseUrl) -> Result<Self, TxError> {
        let session = Session::connect(url, "dispatcher_relay", WITHIN).await?;
        session.client().batch_execute(BEGIN).await?;
        let statement = session.client().prepare("SELECT pg_try_advisory_lock($1)").await?;
        while !session.client().query_one(&statement, &[&LOCK]).await?.get::<_, bool>(0) {
            sleep(TRY_AGAIN).await;
        }
        let session = Arc::new(session);
        let keeper = tokio::spawn(keep_alive(Arc::clone(&session)));
        Ok(Self { session, keeper })
    }

    /// Fails once the turn is over.
    pub(super) fn check(&self) -> Result<(), TxError> {
        if self.keeper.is_finished() || self.session.client().is_closed() {
            return Err(TxError::Unavailable("the relay's session has ended".to_owned()));
        }
        Ok(())
    }

    /// Waits until somebody calls, for `longest` at most.
    pub(super) async fn wait(&self, longest: Duration) {
        drop(timeout(longest, self.session.notified()).await);
    }

    /// Whether somebody called for what is parked since this was last asked.
    pub(super) fn was_called_for_parked(&self) -> bool {
        self.session.take(PARKED)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Uses the session until it doesn't answer; also while a step of the relay takes long.
async fn keep_alive(session: Arc<Session>) {
    while matches!(timeout(WITHIN, session.client().simple_query("")).await, Ok(Ok(_))) {
        sleep(ALIVE).await;
    }
}
