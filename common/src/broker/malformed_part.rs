//! Parts of a bundle that cannot be read: they go to the dead-letter queue while the other parts are handled.

use super::confirm_channel::{ConfirmChannel, is_in_queue};
use super::connection::Broker;
use super::dead_letter_log::log_dead_letter;
use super::mac::{MessageKeys, Purpose, SignedFields};
use super::rpc::{PERSISTENT, headers};
use super::topology::Queue;
use crate::limited;
use crate::log_limit::LogLimit;
use crate::metrics::DEAD_LETTERED;
use crate::trace::{RequestContext, TraceContext};
use lapin::BasicProperties;
use std::time::Duration;
use tokio::time::timeout;
use tracing::Span;

/// Limits the log lines about parts that could not be dead-lettered, by queue.
static NOT_DEAD_LETTERED: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();

/// Maximum time that the broker may take to confirm the parts of a message.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// A part of a bundle that cannot be read, as a message of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedPart {
    /// The request that sent it; also the message's id.
    pub request_context: RequestContext,
    /// JSON metadata of the part's own request.
    pub meta: String,
    /// The publisher's trace context, as a W3C `traceparent`.
    pub traceparent: Option<String>,
    /// The body: a batch of the part's events.
    pub body: Vec<u8>,
    /// Reason for the log and the metric's label; one of a fixed set, never data of the message.
    pub reason: &'static str,
}

impl MalformedPart {
    fn span(&self) -> Span {
        let RequestContext { request_id, context: TraceContext { trace_id, .. } } = self.request_context;
        tracing::error_span!("message", %request_id, %trace_id)
    }

    /// The properties of a message of `queue`, signed for it, because an operator may requeue the part.
    fn properties(&self, keys: &MessageKeys, queue: Queue) -> BasicProperties {
        let id = self.request_context.request_id.to_string();
        let ids = Some(id.as_str());
        let meta = Some(self.meta.as_bytes());
        let covered = SignedFields { message_id: ids, correlation_id: ids, meta, body: &self.body };
        let mac = keys.sign(Purpose::Message(queue), covered);
        BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_correlation_id(id.as_str().into())
            .with_message_id(id.as_str().into())
            .with_headers(headers(&self.meta, self.traceparent.as_deref(), mac))
    }
}

/// Publishes parts to the dead-letter queue of `queue` on `broker`'s connection. Returns whether the broker has
/// confirmed all of them.
pub(super) async fn dead_letter_parts(broker: &Broker, queue: Queue, parts: &[MalformedPart]) -> bool {
    let published = timeout(CONFIRM_WITHIN, publish(broker, queue, parts)).await;
    let is_confirmed = matches!(published, Ok(Some(())));
    for part in parts {
        let _in_span = part.span().entered();
        let (name, reason) = (queue.as_str(), part.reason);
        if is_confirmed {
            log_dead_letter(queue, reason);
            metrics::counter!(DEAD_LETTERED, "queue" => name, "reason" => reason).increment(1);
        } else {
            limited!(
                NOT_DEAD_LETTERED[queue as usize],
                warn,
                queue = name,
                reason,
                "a part of a message could not be dead-lettered; requeueing the message"
            );
        }
    }
    is_confirmed
}

async fn publish(broker: &Broker, queue: Queue, parts: &[MalformedPart]) -> Option<()> {
    let link = broker.link().await?;
    let channel = ConfirmChannel::open(&link.connection).await.ok()?;
    let name = broker.dead_queue_name(queue);
    for part in parts {
        let properties = part.properties(broker.keys(), queue);
        let confirm = channel.publish(&name, &part.body, properties).await.ok()?;
        if !is_in_queue(&confirm.await.ok()?) {
            return None;
        }
    }
    drop(channel.close("published").await);
    Some(())
}
