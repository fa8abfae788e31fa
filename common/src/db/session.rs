//! A connection of its own, outside any pool: for session locks and notifications.

use super::error::TxError;
use crate::sealed::Secret;
use futures_util::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};

/// A connection. Its locks and its listening end with it.
#[derive(Debug)]
pub struct Session {
    client: Client,
    bell: Arc<Notify>,
    driver: JoinHandle<()>,
}

impl Session {
    /// Connects to `url`, which was checked when the settings were read; `name` is what the server shows.
    pub async fn connect(url: &Secret, name: &str, within: Duration) -> Result<Self, TxError> {
        let mut config: Config = url.reveal().parse().expect("checked when the settings were read");
        config.application_name(name).connect_timeout(within).tcp_user_timeout(within);
        let late = |_| TxError::Unavailable("no answer in time".to_owned());
        let (client, connection) = timeout(within, config.connect(NoTls)).await.map_err(late)??;
        let bell = Arc::new(Notify::new());
        let driver = tokio::spawn(drive(connection, Arc::clone(&bell)));
        Ok(Self { client, bell, driver })
    }

    /// To ask through; fails once the connection is gone.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Waits for a notification of what the session listens to, or for the connection's end. One that came since the
    /// last wait counts.
    pub async fn notified(&self) {
        self.bell.notified().await;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Moves the connection's bytes; ends with it, upon which the client's calls fail.
async fn drive(mut connection: Connection<Socket, NoTlsStream>, bell: Arc<Notify>) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if matches!(message, AsyncMessage::Notification(_)) {
            bell.notify_one();
        }
    }
    bell.notify_one();
}
