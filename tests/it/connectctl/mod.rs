//! `connectctl`: what each command prints with `--json`, and how it fails (docs/operators.md).

pub(crate) mod audit;
pub(crate) mod deliveries;
mod migrate;
mod objects;
mod views;

use serde_json::Value;
use std::future::poll_fn;
use tests::{MAX_WAIT, TestDatabase};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, NoTls};

/// The names of an object's fields, sorted.
pub(crate) fn fields(value: &Value) -> Vec<&str> {
    let mut fields: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    fields.sort_unstable();
    fields
}

/// Whether a value is a time as `--json` writes it: RFC 3339 in UTC.
pub(crate) fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() >= 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z'))
}

/// Receives the notifications of one channel.
pub(super) struct Listener {
    heard: mpsc::UnboundedReceiver<()>,
    _client: tokio_postgres::Client,
}

impl Listener {
    /// Listens from now on.
    pub(super) async fn to(database: &TestDatabase, channel: &str) -> Self {
        let (client, mut connection) = tokio_postgres::connect(database.url(), NoTls).await.expect("a database");
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
