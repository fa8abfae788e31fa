//! Waiting for a database notification.

use std::future::poll_fn;
use tests::{MAX_WAIT, TestDatabase};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, NoTls};

/// Receives the notifications of one channel.
pub(super) struct Listener {
    heard: mpsc::UnboundedReceiver<()>,
    _client: tokio_postgres::Client,
}

impl Listener {
    /// Listens from now on.
    pub(super) async fn to(database: &TestDatabase, channel: &str) -> Self {
        let (client, mut connection) =
            tokio_postgres::connect(database.url(), NoTls).await.expect("a database");
        let (sender, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if matches!(message, AsyncMessage::Notification(_)) && sender.send(()).is_err() {
                    return;
                }
            }
        });
        client.batch_execute(&format!("LISTEN {channel}")).await.expect("a channel");
        Self { heard, _client: client }
    }

    /// Waits for a notification.
    pub(super) async fn until_notified(&mut self) {
        let heard = tokio::time::timeout(MAX_WAIT, self.heard.recv()).await;
        assert!(matches!(heard, Ok(Some(()))), "nobody was notified");
    }
}
