//! Queues and why they are declared as they are.

use super::connection::QueueDepth;
use crate::settings::BrokerSettings;
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection};

/// The queues of the operator's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Batches of inbound events.
    Events,
    /// Records writes.
    Records,
    /// Advisor actions.
    Crm,
    /// Outbound events on their way to the dispatcher.
    Webhooks,
}

impl Queue {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Events, Self::Records, Self::Crm, Self::Webhooks];

    /// The name without prefix, also the metrics' label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Records => "records",
            Self::Crm => "crm",
            Self::Webhooks => "webhooks",
        }
    }
}

/// `<prefix>.<name>`.
pub fn queue_name(prefix: &str, queue: Queue) -> String {
    format!("{prefix}.{}", queue.as_str())
}

/// `<prefix>.<name>.dead`.
pub fn dead_queue_name(prefix: &str, queue: Queue) -> String {
    format!("{prefix}.{}.dead", queue.as_str())
}

/// `<prefix>.webhooks.retry.<level>`: where a delivery waits for its next attempt; levels count from 1.
pub fn retry_queue_name(prefix: &str, level: u8) -> String {
    format!("{prefix}.{}", retry_label(level))
}

/// The name without prefix, also the metrics' label.
pub(super) fn retry_label(level: u8) -> String {
    format!("{}.retry.{level}", Queue::Webhooks.as_str())
}

/// Times a message is delivered before it counts as poison. High enough for a string of worker crashes.
const DELIVERY_LIMIT: i32 = 20;

/// Declares every queue and its dead-letter queue, and the waiting queues of the first `retry_levels` levels.
pub(super) async fn declare(
    connection: &Connection,
    settings: &BrokerSettings,
    retry_levels: u8,
) -> lapin::Result<()> {
    for queue in Queue::ALL {
        let name = queue_name(&settings.prefix, queue);
        let dead = dead_queue_name(&settings.prefix, queue);
        // First the dead-letter queue, so that nothing can be dead-lettered into the void.
        let mut kept = bounded(settings);
        // Looking at dead letters hands them out, which must not use them up: without a limit of its own a queue has
        // one of 20 from RabbitMQ 4.0 on, and what exceeds it here would be dropped.
        kept.insert("x-delivery-limit".into(), AMQPValue::LongInt(i32::MAX));
        declare_one(connection, &dead, kept).await?;
        // A message that can't be handled ends in the dead-letter queue.
        let mut arguments = forwarding(settings, &dead);
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(DELIVERY_LIMIT));
        declare_one(connection, &name, arguments).await?;
    }
    let webhooks = queue_name(&settings.prefix, Queue::Webhooks);
    for level in 1..=retry_levels {
        // How long a message waits is said by the message, so that a changed schedule needs no other queue. A level
        // holds only waits of one length (but for the jitter), because only the oldest message is looked at.
        let name = retry_queue_name(&settings.prefix, level);
        declare_one(connection, &name, forwarding(settings, &webhooks)).await?;
    }
    Ok(())
}

/// A bounded queue whose messages go to the queue `to` when they are rejected or their time is up.
fn forwarding(settings: &BrokerSettings, to: &str) -> FieldTable {
    let mut arguments = bounded(settings);
    // Through the default exchange ...
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text(to));
    // ... and kept until that queue has it; needs reject-publish.
    arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    arguments
}

fn bounded(settings: &BrokerSettings) -> FieldTable {
    let mut arguments = FieldTable::default();
    // Replicated and written to disk before a confirm.
    arguments.insert("x-queue-type".into(), text("quorum"));
    // A full queue refuses the publish, so that the caller hears of it (D9), instead of dropping its oldest.
    arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(settings.max_length.into()));
    arguments.insert("x-max-length-bytes".into(), AMQPValue::LongLongInt(settings.max_bytes));
    arguments.insert("x-overflow".into(), text("reject-publish"));
    arguments
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// Declares a queue. One that is there with other arguments is used as it is: a changed setting must not turn a
/// deploy into a crash loop.
async fn declare_one(connection: &Connection, name: &str, arguments: FieldTable) -> lapin::Result<()> {
    let channel = connection.create_channel().await?;
    let declared = channel.queue_declare(name.into(), QueueDeclareOptions::durable(), arguments).await;
    match declared {
        Ok(_) => close(&channel).await,
        Err(difference) if is_inequivalent(&difference) => {
            tracing::warn!(queue = name, %difference, "queue exists with other arguments; using it as it is");
            let channel = connection.create_channel().await?;
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
            channel.queue_declare(name.into(), passive, FieldTable::default()).await?;
            close(&channel).await
        }
        Err(error) => Err(error),
    }
}

/// What is in the queue of that full name; `None` where it isn't declared.
pub(super) async fn depth(connection: &Connection, name: &str) -> lapin::Result<Option<QueueDepth>> {
    let channel = connection.create_channel().await?;
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
    match channel.queue_declare(name.into(), passive, FieldTable::default()).await {
        Ok(queue) => {
            channel.close(200, "asked".into()).await?;
            Ok(Some(QueueDepth { ready: queue.message_count(), consumers: queue.consumer_count() }))
        }
        // The broker has closed the channel with this answer.
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_not_found(error: &lapin::Error) -> bool {
    use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(error)
        if matches!(error.kind(), AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND)))
}

fn is_inequivalent(error: &lapin::Error) -> bool {
    use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(error)
        if matches!(error.kind(), AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED)))
}

async fn close(channel: &Channel) -> lapin::Result<()> {
    channel.close(200, "declared".into()).await
}
