//! Whose turn it is to relay, and what wakes the relay up.

use common::db::{Session, TxError};
use common::sealed::Secret;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// The lock's key: "webhooks" in ASCII.
const LOCK: i64 = i64::from_be_bytes(*b"webhooks");
/// Longest that Postgres may take to answer.
const WITHIN: Duration = Duration::from_secs(2);
/// The session listens; and a relay that is stuck is ended by the server, so that another copy can take its turn.
const BEGIN: &str = "
    SET idle_session_timeout = '5s';
    SET statement_timeout = '2s';
    LISTEN connect_outbox";

/// A turn: a session lock on a connection of its own. It ends with the connection.
#[derive(Debug)]
pub(super) struct Turn {
    session: Session,
    called: AtomicBool,
}

impl Turn {
    /// Takes the turn, unless another copy has it.
    pub(super) async fn take(url: &Secret) -> Result<Option<Self>, TxError> {
        let session = Session::connect(url, "dispatcher_relay", WITHIN).await?;
        let row = session.client().query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK]).await?;
        if !row.get::<_, bool>(0) {
            return Ok(None);
        }
        session.client().batch_execute(BEGIN).await?;
        Ok(Some(Self { session, called: AtomicBool::new(true) }))
    }

    /// Waits until somebody calls, for `longest` at most. Fails once the turn is over.
    pub(super) async fn wait(&self, longest: Duration) -> Result<(), TxError> {
        if timeout(longest, self.session.notified()).await.is_ok() {
            self.called.store(true, Ordering::Relaxed);
        }
        let alive = timeout(WITHIN, self.session.client().simple_query("")).await;
        alive.map_err(|_| TxError::Unavailable("no answer in time".to_owned()))??;
        Ok(())
    }

    /// Whether somebody called since this was last asked.
    pub(super) fn was_called(&self) -> bool {
        self.called.swap(false, Ordering::Relaxed)
    }
}
