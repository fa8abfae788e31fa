//! A connection of its own, outside any pool: for session locks and notifications.

use super::connect::{Connected, connect};
use super::error::TxError;
use crate::settings::DatabaseUrl;
use futures_util::future::poll_fn;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client};

/// A connection. Its locks and its listening end with it.
#[derive(Debug)]
pub struct Session {
    client: Client,
    bell: Arc<Bell>,
    driver: JoinHandle<()>,
}

/// What the session was notified of.
#[derive(Debug, Default)]
struct Bell {
    rung: Notify,
    channels: Mutex<BTreeSet<String>>,
}

impl Session {
    /// Connects to `url`; `name` is what the server shows.
    pub async fn connect(url: &DatabaseUrl, name: &str, within: Duration) -> Result<Self, TxError> {
        let mut config = url.config();
        config.application_name(name);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(within);
        }
        let (client, connection) = connect(url, &config, within).await?;
        let bell = Arc::new(Bell::default());
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
        self.bell.rung.notified().await;
    }

    /// Whether there was a notification on `channel` since this was last asked.
    pub fn take(&self, channel: &str) -> bool {
        self.bell.channels.lock().unwrap_or_else(PoisonError::into_inner).remove(channel)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Moves the connection's bytes; ends with it, upon which the client's calls fail.
async fn drive(mut connection: Connected, bell: Arc<Bell>) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            let channel = notification.channel().to_owned();
            bell.channels.lock().unwrap_or_else(PoisonError::into_inner).insert(channel);
            bell.rung.notify_one();
        }
    }
    bell.rung.notify_one();
}
