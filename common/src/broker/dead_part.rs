//! Parts of a message that go to the dead-letter queue while the rest of the message is handled.

use super::connection::Broker;
use super::dead_log::log_dead_letter;
use super::mac::{Covered, MessageKeys, Purpose};
use super::rpc::{PERSISTENT, headers};
use super::topology::Queue;
use crate::limited;
use crate::log_limit::LogLimit;
use crate::metrics::DEAD_LETTERED;
use crate::trace::{TraceContext, Trail};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Confirmation};
use std::time::Duration;
use tokio::time::timeout;
use tracing::Span;

/// Which parts that could not be dead-lettered are logged, by queue.
static NOT_KEPT: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();

/// Longest that the broker may take to confirm the parts of a message.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// A part that can never be handled, as a message of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadPart {
    /// The request that sent it; also the message's id.
    pub trail: Trail,
    /// JSON metadata.
    pub meta: String,
    /// The publisher's place in a trace.
    pub traceparent: Option<String>,
    /// The message.
    pub body: Vec<u8>,
    /// For the log and the metric's label; a fixed word, no data of the message.
    pub reason: &'static str,
}

impl DeadPart {
    fn span(&self) -> Span {
        let Trail { request_id, context: TraceContext { trace_id, .. } } = self.trail;
        tracing::error_span!("message", %request_id, %trace_id)
    }

    /// Signed like a message of `queue`: requeued, it is one.
    fn properties(&self, keys: &MessageKeys, queue: Queue) -> BasicProperties {
        let id = self.trail.request_id.to_string();
        let ids = Some(id.as_str());
        let meta = Some(self.meta.as_bytes());
        let covered = Covered { message_id: ids, correlation_id: ids, meta, body: &self.body };
        let mac = keys.sign(Purpose::Message(queue), covered);
        BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_correlation_id(id.as_str().into())
            .with_message_id(id.as_str().into())
            .with_headers(headers(&self.meta, self.traceparent.as_deref(), mac))
    }
}

/// Publishes parts to the dead-letter queue of `queue` on `broker`'s connection. Gives whether the broker has confirmed
/// all of them.
pub(super) async fn dead_letter(broker: &Broker, queue: Queue, parts: &[DeadPart]) -> bool {
    let published = timeout(CONFIRM_WITHIN, publish(broker, queue, parts)).await;
    let is_kept = matches!(published, Ok(Some(())));
    for part in parts {
        let _in_span = part.span().entered();
        let (name, reason) = (queue.as_str(), part.reason);
        if is_kept {
            log_dead_letter(queue, reason);
            metrics::counter!(DEAD_LETTERED, "queue" => name, "reason" => reason).increment(1);
        } else {
            limited!(
                NOT_KEPT[queue as usize],
                warn,
                queue = name,
                reason,
                "a part of a message could not be dead-lettered; requeueing the message"
            );
        }
    }
    is_kept
}

async fn publish(broker: &Broker, queue: Queue, parts: &[DeadPart]) -> Option<()> {
    let link = broker.link().await?;
    let channel = link.connection.create_channel().await.ok()?;
    channel.confirm_select(ConfirmSelectOptions::default()).await.ok()?;
    let name = broker.dead_queue_name(queue);
    // Mandatory: a message for a queue that is gone comes back instead of vanishing.
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    for part in parts {
        let properties = part.properties(broker.keys(), queue);
        let published =
            channel.basic_publish("".into(), name.as_str().into(), options, &part.body, properties);
        if !matches!(published.await.ok()?.await, Ok(Confirmation::Ack(None))) {
            return None;
        }
    }
    drop(channel.close(200, "published".into()).await);
    Some(())
}
