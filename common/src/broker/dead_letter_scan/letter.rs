//! The properties of a dead letter.

use crate::broker::rpc::META_HEADER;
use chrono::{DateTime, Utc};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};

/// Delivery mode: a requeued message survives a restart of the broker.
const PERSISTENT: u8 = 2;

/// Headers that the broker writes, or acts on when a message is published. A requeued message does not carry
/// them: earlier dead-lettering and deliveries do not count towards its limits, and it goes to no other queue.
const BROKER_HEADERS: [&str; 11] = [
    "x-death", "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason", "x-last-death-exchange",
    "x-last-death-queue", "x-last-death-reason", "x-delivery-count", "x-acquired-count", "CC", "BCC",
];

/// A message of a dead-letter queue, without its body, which may hold personal data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Why it was dead-lettered, the latest cause first; empty when it was published there directly. From the header
    /// `x-death`, in the format of RabbitMQ 3.10 and later.
    pub causes: Vec<DeadLetterCause>,
    /// The publisher's id of the message.
    pub message_id: Option<String>,
    /// The publisher's metadata; JSON when one of the programs published it.
    pub meta: Option<String>,
    /// Size of the body in bytes.
    pub bytes: usize,
}

/// One cause for which the broker dead-lettered a message: an entry of `x-death`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterCause {
    /// The full name of the queue that dead-lettered it.
    pub queue: String,
    /// RabbitMQ's reason: `rejected`, `expired`, `maxlen` or `delivery_limit`.
    pub reason: String,
    /// When this happened for the first time, in whole seconds.
    pub at: Option<DateTime<Utc>>,
    /// How often this happened.
    pub count: u64,
}

impl DeadLetter {
    pub(super) fn from_properties(properties: &BasicProperties, bytes: usize) -> Self {
        let header = |name| properties.headers().as_ref()?.inner().get(&ShortString::from(name));
        let causes = match header("x-death") {
            Some(AMQPValue::FieldArray(causes)) => read_causes(causes),
            Some(_) | None => Vec::new(),
        };
        let message_id = properties.message_id().as_ref().map(ToString::to_string);
        Self { causes, message_id, meta: header(META_HEADER).and_then(text), bytes }
    }

    /// Why the queue of that full name dead-lettered it.
    pub fn cause_in(&self, queue: &str) -> Option<&DeadLetterCause> {
        self.causes.iter().find(|cause| cause.queue == queue)
    }
}

fn read_causes(causes: &FieldArray) -> Vec<DeadLetterCause> {
    causes.as_slice().iter().filter_map(read_cause).collect()
}

fn read_cause(cause: &AMQPValue) -> Option<DeadLetterCause> {
    let AMQPValue::FieldTable(cause) = cause else { return None };
    let field = |name| cause.inner().get(&ShortString::from(name));
    let at = match field("time") {
        Some(AMQPValue::Timestamp(seconds)) => DateTime::from_timestamp(i64::try_from(*seconds).ok()?, 0),
        Some(_) | None => None,
    };
    let count = match field("count") {
        Some(AMQPValue::LongLongInt(count)) => u64::try_from(*count).unwrap_or_default(),
        Some(_) | None => 1,
    };
    Some(DeadLetterCause { queue: text(field("queue")?)?, reason: text(field("reason")?)?, at, count })
}

fn text(value: &AMQPValue) -> Option<String> {
    let AMQPValue::LongString(text) = value else { return None };
    std::str::from_utf8(text.as_bytes()).ok().map(str::to_owned)
}

/// The properties of a requeued message: all that its publisher set, except for `reply_to`, whose caller no longer waits,
/// and the expiration.
pub(in crate::broker) fn requeue_properties(properties: &BasicProperties) -> BasicProperties {
    let mut fresh = BasicProperties::default().with_delivery_mode(PERSISTENT);
    if let Some(headers) = properties.headers() {
        let mut kept = FieldTable::default();
        for (name, value) in headers.inner() {
            if !BROKER_HEADERS.contains(&name.as_str()) {
                kept.insert(name.clone(), value.clone());
            }
        }
        fresh = fresh.with_headers(kept);
    }
    if let Some(content_type) = properties.content_type().clone() {
        fresh = fresh.with_content_type(content_type);
    }
    if let Some(encoding) = properties.content_encoding().clone() {
        fresh = fresh.with_content_encoding(encoding);
    }
    if let Some(id) = properties.correlation_id().clone() {
        fresh = fresh.with_correlation_id(id);
    }
    if let Some(id) = properties.message_id().clone() {
        fresh = fresh.with_message_id(id);
    }
    if let Some(timestamp) = *properties.timestamp() {
        fresh = fresh.with_timestamp(timestamp);
    }
    if let Some(kind) = properties.kind().clone() {
        fresh = fresh.with_type(kind);
    }
    if let Some(app) = properties.app_id().clone() {
        fresh = fresh.with_app_id(app);
    }
    fresh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requeued_message_goes_to_one_queue_and_does_not_expire() {
        let mut headers = FieldTable::default();
        headers.insert("CC".into(), AMQPValue::FieldArray(FieldArray::default()));
        let kept = BasicProperties::default().with_delivery_mode(PERSISTENT).with_correlation_id("c-1".into());
        let dead = kept.clone().with_headers(headers).with_expiration("5".into()).with_user_id("guest".into());
        assert_eq!(requeue_properties(&dead), kept.with_headers(FieldTable::default()));
    }
}
