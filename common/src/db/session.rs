//! A single connection outside of any pool, for session locks and notifications. It is opened again after it was lost.

use super::connect::{DriverConnection, connect};
use super::demotion;
use super::error::TxError;
use crate::health;
use crate::settings::DatabaseUrl;
use futures_util::future::poll_fn;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Error, Row, Statement, ToStatement};
use tokio_util::sync::CancellationToken;

/// TCP user timeout of a session, unless the URL has another one: an unreachable server is detected within it.
const USER_TIMEOUT: Duration = Duration::from_secs(2);

/// What a session is opened with.
#[derive(Clone, Debug)]
pub struct DatabaseSessionConfig {
    /// The servers to connect to.
    pub url: DatabaseUrl,
    /// The `application_name`.
    pub name: &'static str,
    /// Maximum time that connecting may take, and each response.
    pub within: Duration,
    /// Statements that run first: settings and `LISTEN`s.
    pub setup: &'static str,
}

/// What a program does with a session.
pub trait SessionWork: Send {
    /// Works on a new session. `Ok` ends the work; after an error a new session is opened.
    fn run(&mut self, session: &Arc<DatabaseSession>) -> impl Future<Output = Result<(), TxError>> + Send;

    /// Called when no session could be opened, or the work on it failed, before the next attempt.
    fn failed(&mut self, error: &TxError);
}

/// Opens a session and works on it, and again `wait` after each failure, until the work or the program ends. A shutdown
/// interrupts opening a session; it is up to the work to end then.
pub async fn run_session(
    settings: &DatabaseSessionConfig, wait: Duration, work: &mut impl SessionWork, shutdown: &CancellationToken,
) {
    while let Some(opened) = shutdown.run_until_cancelled(DatabaseSession::open(settings)).await {
        let ended = match opened {
            Ok(session) => {
                let session = Arc::new(session);
                work.run(&session).await
            }
            Err(error) => Err(error),
        };
        let Err(error) = ended else { return };
        work.failed(&error);
        shutdown.run_until_cancelled(sleep(wait)).await;
    }
}

/// A connection. Its session locks and `LISTEN`s end with it.
#[derive(Debug)]
pub struct DatabaseSession {
    client: Client,
    within: Duration,
    notifications: Arc<Notifications>,
    driver: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Notifications {
    arrived: Notify,
    payloads: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

impl DatabaseSession {
    async fn open(settings: &DatabaseSessionConfig) -> Result<Self, TxError> {
        let DatabaseSessionConfig { url, name, within, setup } = settings;
        let mut config = url.config();
        config.application_name(*name);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(USER_TIMEOUT);
        }
        let (client, connection) = connect(url, &config, *within).await?;
        let notifications = Arc::new(Notifications::default());
        let driver = tokio::spawn(drive(connection, Arc::clone(&notifications)));
        let session = Self { client, within: *within, notifications, driver };
        session.response(session.client.batch_execute(setup)).await?;
        Ok(session)
    }

    /// Prepares a statement for the life of the session.
    pub async fn prepare(&self, sql: &str) -> Result<Statement, TxError> {
        self.response(self.client.prepare(sql)).await
    }

    /// Runs a statement that returns one row.
    pub async fn query_one(&self, statement: &Statement, parameters: &[&(dyn ToSql + Sync)]) -> Result<Row, TxError> {
        self.response(self.client.query_one(statement, parameters)).await
    }

    /// Runs a statement, prepared or as text, that returns any number of rows.
    pub async fn query(
        &self, statement: &(impl ToStatement + Sync + ?Sized), parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, TxError> {
        self.response(self.client.query(statement, parameters)).await
    }

    /// Uses the session, which detects that it is lost and keeps the server from ending it as idle. Fails as well when the
    /// server has become read-only: locks on it no longer exclude the other programs, and their notifications do not reach it.
    pub async fn keep_alive(&self) -> Result<(), TxError> {
        if self.response(demotion::is_read_only(&self.client)).await? {
            return Err(TxError::Unavailable("the server has become read-only".to_owned()));
        }
        Ok(())
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits for a response, for as long as the session's settings allow.
    async fn response<T>(&self, response: impl Future<Output = Result<T, Error>>) -> Result<T, TxError> {
        let _work = health::begin_work();
        Ok(timeout(self.within, response).await.map_err(|_| TxError::no_response())??)
    }

    /// Waits for a notification on any channel that the session listens to, or for the end of the connection. Returns at once
    /// if one arrived since the last wait.
    pub async fn notified(&self) {
        self.notifications.arrived.notified().await;
    }

    /// The payloads of the notifications on `channel` that arrived since the last call.
    pub fn take_payloads(&self, channel: &str) -> BTreeSet<String> {
        let mut payloads = self.notifications.payloads.lock();
        payloads.remove(channel).unwrap_or_default()
    }
}

impl Drop for DatabaseSession {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Drives the connection and collects notifications until the connection ends.
async fn drive(mut connection: DriverConnection, notifications: Arc<Notifications>) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            let (channel, payload) = (notification.channel().to_owned(), notification.payload().to_owned());
            let mut payloads = notifications.payloads.lock();
            payloads.entry(channel).or_default().insert(payload);
            drop(payloads);
            notifications.arrived.notify_one();
        }
    }
    notifications.arrived.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingValue;
    use std::net::TcpListener;

    /// Counts failures and shuts down after the third one.
    struct Failures {
        count: usize,
        shutdown: CancellationToken,
    }

    impl SessionWork for Failures {
        async fn run(&mut self, _session: &Arc<DatabaseSession>) -> Result<(), TxError> {
            unreachable!("no session can be opened")
        }

        fn failed(&mut self, error: &TxError) {
            assert!(matches!(error, TxError::Unavailable(_)), "{error}");
            self.count += 1;
            if self.count == 3 {
                self.shutdown.cancel();
            }
        }
    }

    #[tokio::test]
    async fn opens_a_session_again_after_each_failure_until_shutdown() {
        // A port that nothing listens on any more.
        let address = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("its address");
        let url = DatabaseUrl::parse_setting(&format!("postgres://user@{address}/none")).expect("a URL");
        let within = Duration::from_secs(5);
        let settings = DatabaseSessionConfig { url, name: "test", within, setup: "" };
        let shutdown = CancellationToken::new();
        let mut work = Failures { count: 0, shutdown: shutdown.clone() };
        let wait = Duration::from_millis(1);
        timeout(within, run_session(&settings, wait, &mut work, &shutdown)).await.expect("it ends at shutdown");
        assert_eq!(work.count, 3);
    }
}
