//! A time limit for commands that the AMQP library passes to a task of their connection, such as opening channels.
//!
//! A command that arrives while the connection ends may stay in that task's queue after the task has ended. Then its future never
//! completes (lapin 4.12 with flume 0.12: a queue without a receiver keeps its commands until nothing can send to it any more).
//! Its connection is lost, so the broker delivers unacknowledged messages again.

use crate::health;
use lapin::{ChannelState, Error, ErrorKind};
use std::time::Duration;
use tokio::time::timeout;

/// Longer than a broker takes that works; a consumer or a recorder that waits in vain does nothing else meanwhile.
const LIMIT: Duration = Duration::from_secs(10);

/// Waits for a command, and takes its channel for closed if it does not complete in time.
pub(super) async fn in_time<T>(command: impl Future<Output = lapin::Result<T>>) -> lapin::Result<T> {
    within(LIMIT, command).await
}

async fn within<T>(limit: Duration, command: impl Future<Output = lapin::Result<T>>) -> lapin::Result<T> {
    let _work = health::begin_work();
    timeout(limit, command).await.unwrap_or_else(|_| Err(no_response()))
}

/// The broker did not respond in time.
pub(super) fn no_response() -> Error {
    ErrorKind::InvalidChannelState(ChannelState::Closed, "no response in time").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_that_never_completes_fails() {
        let error = within(Duration::ZERO, std::future::pending::<lapin::Result<()>>()).await.unwrap_err();
        assert!(error.to_string().contains("no response in time"), "{error}");
        assert!(matches!(in_time(async { Ok(7) }).await, Ok(7)));
    }
}
