//! Leadership of the relay, and the notifications that wake it up.

use common::db::{DatabaseSession, DatabaseSessionConfig, TxError};
use common::settings::DatabaseUrl;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// The lock's key: "webhooks" in ASCII.
const LOCK: i64 = i64::from_be_bytes(*b"webhooks");
/// How often a copy that is not the leader tries to become it.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How often the session is used, which detects a lost session and keeps the server from ending it as idle.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time that Postgres may take to respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Notification channel for parked deliveries, which operators' commands notify.
const PARKED_CHANNEL: &str = "connect_parked";
/// Settings and channels of the session. The server ends the idle session of a stuck program, so that another copy can become
/// the leader.
const SESSION_SETUP: &str = "
    SET idle_session_timeout = '5s';
    SET statement_timeout = '2s';
    LISTEN connect_outbox;
    LISTEN connect_parked";

/// Leadership: a session lock on a single connection, which ends with the connection.
#[derive(Debug)]
pub(super) struct RelayLeadership {
    session: Arc<DatabaseSession>,
    keep_alive_task: JoinHandle<()>,
}

impl RelayLeadership {
    /// The settings of the session that [`acquire`](Self::acquire) needs.
    pub(super) fn session_settings(url: &DatabaseUrl) -> DatabaseSessionConfig {
        let (url, setup) = (url.clone(), SESSION_SETUP);
        DatabaseSessionConfig { url, name: "dispatcher_relay", within: RESPONSE_TIMEOUT, setup }
    }

    /// Waits until this copy becomes the leader. Fails when the connection is lost.
    pub(super) async fn acquire(session: &Arc<DatabaseSession>) -> Result<Self, TxError> {
        let statement = session.prepare("SELECT pg_try_advisory_lock($1)").await?;
        while !session.query_one(&statement, &[&LOCK]).await?.get::<_, bool>(0) {
            sleep(RETRY_INTERVAL).await;
        }
        let session = Arc::clone(session);
        let keep_alive_task = tokio::spawn(keep_alive(Arc::clone(&session)));
        Ok(Self { session, keep_alive_task })
    }

    /// Returns an error once the session has ended.
    pub(super) fn check(&self) -> Result<(), TxError> {
        if self.keep_alive_task.is_finished() || self.session.is_closed() {
            return Err(TxError::Unavailable("the relay's session has ended".to_owned()));
        }
        Ok(())
    }

    /// Waits for a notification, for at most `longest`.
    pub(super) async fn wait(&self, longest: Duration) {
        drop(timeout(longest, self.session.notified()).await);
    }

    /// Whether a notification about parked deliveries arrived since the last call.
    pub(super) fn take_parked_notification(&self) -> bool {
        self.session.take_notification(PARKED_CHANNEL)
    }
}

impl Drop for RelayLeadership {
    fn drop(&mut self) {
        self.keep_alive_task.abort();
    }
}

/// Uses the session until it does not respond; independent of the relay's steps.
async fn keep_alive(session: Arc<DatabaseSession>) {
    while session.keep_alive().await.is_ok() {
        sleep(KEEP_ALIVE_INTERVAL).await;
    }
}
