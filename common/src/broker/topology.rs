//! The queues, their arguments, and the reasons for them.

use super::connection::QueueDepth;
use crate::settings::BrokerSettings;
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection};

crate::named! {
    /// A queue (docs/operators.md). Names have no prefix, and are labels of metrics.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Queue {
        /// Batches of inbound events.
        Events = "events",
        /// Records writes.
        Records = "records",
        /// Advisor actions.
        Crm = "crm",
        /// Outbound events. Only its dead-letter queue exists, with a notice for each dead-lettered delivery: deliveries are in
        /// Postgres.
        Webhooks = "webhooks",
    }
}

impl Queue {
    /// Those that exist beside their dead-letter queues, and are consumed.
    pub const CONSUMED: [Self; 3] = [Self::Events, Self::Records, Self::Crm];
}

/// `<prefix>.<name>`.
pub fn queue_name(prefix: &str, queue: Queue) -> String {
    format!("{prefix}.{}", queue.as_str())
}

/// `<prefix>.<name>.dead`.
pub fn dead_queue_name(prefix: &str, queue: Queue) -> String {
    format!("{prefix}.{}.dead", queue.as_str())
}

/// Deliveries of a message after which the broker dead-letters it. High enough for a series of worker crashes.
const DELIVERY_LIMIT: i32 = 20;

/// What a program does with queues. It decides which queues the program declares, and so which permissions it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueUse {
    /// Queues that it only publishes to. It declares those that do not exist, so that it needs no permission on queues where
    /// a consumer or `connectctl queue declare` has declared them.
    pub publishes: &'static [Queue],
    /// Queues that it consumes. It declares them with their dead-letter queues.
    pub consumes: &'static [Queue],
    /// Queues of which it declares and fills only the dead-letter queue.
    pub notices: &'static [Queue],
}

impl QueueUse {
    /// All queues, for an operator who declares them.
    pub(super) const ALL: Self = Self { publishes: &[], consumes: &Queue::CONSUMED, notices: &[Queue::Webhooks] };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Declare {
    Always,
    IfMissing,
}

/// Declares the queues that a program uses, and their dead-letter queues.
pub(super) async fn declare(connection: &Connection, settings: &BrokerSettings, queues: QueueUse) -> lapin::Result<()> {
    let QueueUse { publishes, consumes, notices } = queues;
    let consumed = consumes.iter().map(|queue| (*queue, Declare::Always));
    for (queue, when) in consumed.chain(publishes.iter().map(|queue| (*queue, Declare::IfMissing))) {
        let name = queue_name(&settings.prefix, queue);
        if when == Declare::IfMissing && depth(connection, &name).await?.is_some() {
            continue;
        }
        // The dead-letter queue is declared first, so that no dead-lettered message can be lost.
        let dead = dead_queue_name(&settings.prefix, queue);
        declare_one(connection, &dead, dead_arguments(settings, queue)).await?;
        declare_one(connection, &name, arguments(settings, queue)).await?;
    }
    for queue in notices {
        let dead = dead_queue_name(&settings.prefix, *queue);
        declare_one(connection, &dead, dead_arguments(settings, *queue)).await?;
    }
    Ok(())
}

/// A message that cannot be handled goes to the dead-letter queue.
fn arguments(settings: &BrokerSettings, queue: Queue) -> FieldTable {
    let mut arguments = bounded(settings);
    // The default exchange routes dead letters to the queue of that name. With `at-least-once` they stay in this queue until that
    // one has confirmed them, which needs `reject-publish`.
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text(&dead_queue_name(&settings.prefix, queue)));
    arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(DELIVERY_LIMIT));
    if queue == Queue::Crm {
        // Several workers would store the actions of a tenant in another order. Another one takes over when the consumer ends.
        arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    }
    arguments
}

/// Each scan of dead letters delivers them, and must not use up a delivery limit: since RabbitMQ 4.0 a queue without its own limit
/// has one of 20, beyond which messages of this queue would be dropped.
///
/// Messages expire by an argument of the queue, because the broker removes the TTL of a message that it dead-letters. Those
/// of webhooks never do, because their deliveries can be replayed (D31).
fn dead_arguments(settings: &BrokerSettings, queue: Queue) -> FieldTable {
    let mut arguments = bounded(settings);
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(i32::MAX));
    if let Some(length) = settings.dead_letters.length().filter(|_| queue != Queue::Webhooks) {
        let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(millis));
    }
    arguments
}

/// The full names of the queues and their dead-letter queues, with their arguments.
pub(super) fn declarations(settings: &BrokerSettings) -> Vec<(String, FieldTable)> {
    let mut all = Vec::new();
    for queue in Queue::ALL {
        if Queue::CONSUMED.contains(&queue) {
            all.push((queue_name(&settings.prefix, queue), arguments(settings, queue)));
        }
        all.push((dead_queue_name(&settings.prefix, queue), dead_arguments(settings, queue)));
    }
    all
}

/// What the broker says about the arguments of a queue that exists; `None` if it has these.
pub(super) async fn difference(
    connection: &Connection, name: &str, arguments: FieldTable,
) -> lapin::Result<Option<String>> {
    let channel = connection.create_channel().await?;
    match channel.queue_declare(name.into(), QueueDeclareOptions::durable(), arguments).await {
        Ok(_) => close(&channel).await.map(|()| None),
        Err(error) if is_inequivalent(&error) || is_refused(&error) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

fn bounded(settings: &BrokerSettings) -> FieldTable {
    let mut arguments = FieldTable::default();
    // Replicated and written to disk before a confirm.
    arguments.insert("x-queue-type".into(), text("quorum"));
    // A full queue refuses the publish, so that the caller is told (D9), instead of dropping its oldest message.
    arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(settings.max_length.into()));
    arguments.insert("x-max-length-bytes".into(), AMQPValue::LongLongInt(settings.max_bytes));
    arguments.insert("x-overflow".into(), text("reject-publish"));
    arguments
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// Declares a queue. One that exists with other arguments is used as it is: a changed setting must not turn a deployment
/// into a crash loop. So is one that exists and that the user may not declare.
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
        Err(refusal) if is_refused(&refusal) => match depth(connection, name).await? {
            Some(_) => Ok(()),
            None => Err(refusal),
        },
        Err(error) => Err(error),
    }
}

/// The length of the queue of that full name; `None` when it does not exist.
pub(super) async fn depth(connection: &Connection, name: &str) -> lapin::Result<Option<QueueDepth>> {
    let channel = connection.create_channel().await?;
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
    match channel.queue_declare(name.into(), passive, FieldTable::default()).await {
        Ok(queue) => {
            channel.close(200, "asked".into()).await?;
            Ok(Some(QueueDepth { ready: queue.message_count(), consumers: queue.consumer_count() }))
        }
        // The broker closes the channel with this error.
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_not_found(error: &lapin::Error) -> bool {
    use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(error)
        if matches!(error.kind(), AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND)))
}

pub(super) fn is_refused(error: &lapin::Error) -> bool {
    use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(error)
        if matches!(error.kind(), AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)))
}

fn is_inequivalent(error: &lapin::Error) -> bool {
    use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(error)
        if matches!(error.kind(), AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED)))
}

async fn close(channel: &Channel) -> lapin::Result<()> {
    channel.close(200, "declared".into()).await
}
