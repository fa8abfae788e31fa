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

    fn long(text: &str) -> AMQPValue {
        AMQPValue::LongString(text.into())
    }

    fn table(fields: &[(&str, AMQPValue)]) -> FieldTable {
        let mut table = FieldTable::default();
        for (name, value) in fields {
            table.insert((*name).into(), value.clone());
        }
        table
    }

    fn cause(queue: &str, reason: &str) -> AMQPValue {
        AMQPValue::FieldTable(table(&[
            ("queue", long(queue)),
            ("reason", long(reason)),
            ("time", AMQPValue::Timestamp(1_777_629_600)),
            ("count", AMQPValue::LongLongInt(3)),
            ("exchange", long("")),
        ]))
    }

    fn dead() -> BasicProperties {
        let causes = vec![cause("p.events", "rejected"), cause("p.other", "expired")];
        BasicProperties::default()
            .with_headers(table(&[
                ("x-death", AMQPValue::FieldArray(causes.into())),
                ("x-first-death-reason", long("expired")),
                ("x-delivery-count", AMQPValue::LongLongInt(7)),
                (META_HEADER, long("{}")),
                ("traceparent", long("00-1")),
                ("CC", AMQPValue::FieldArray(vec![long("other")].into())),
            ]))
            .with_message_id("m-1".into())
            .with_correlation_id("c-1".into())
            .with_reply_to("amq.rabbitmq.reply-to.x".into())
            .with_expiration("5".into())
            .with_user_id("guest".into())
    }

    #[test]
    fn a_dead_letter_names_queue_time_and_reason() {
        let letter = DeadLetter::from_properties(&dead(), 12);
        let last = letter.cause_in("p.events").unwrap();
        assert_eq!((last.reason.as_str(), last.count), ("rejected", 3));
        assert_eq!(crate::clock::to_text(last.at.unwrap()), "2026-05-01T10:00:00.000Z");
        assert_eq!(letter.causes[1].reason, "expired");
        assert_eq!((letter.message_id.as_deref(), letter.meta.as_deref()), (Some("m-1"), Some("{}")));
        assert_eq!((letter.bytes, letter.cause_in("p.webhooks")), (12, None));
    }

    #[test]
    fn a_message_published_to_the_dead_letter_queue_has_no_causes() {
        assert_eq!(DeadLetter::from_properties(&BasicProperties::default(), 0).causes, []);
        for odd in [long("x"), AMQPValue::FieldArray(vec![long("x")].into())] {
            let properties = BasicProperties::default().with_headers(table(&[("x-death", odd)]));
            assert_eq!(DeadLetter::from_properties(&properties, 0).causes, []);
        }
    }

    #[test]
    fn a_requeued_message_keeps_its_ids_and_loses_reply_to_and_counters() {
        let fresh = requeue_properties(&dead());
        let headers: Vec<&str> = fresh.headers().as_ref().unwrap().inner().keys().map(ShortString::as_str).collect();
        assert_eq!(headers, ["traceparent", META_HEADER]);
        assert_eq!(fresh.message_id().as_ref().unwrap().as_str(), "m-1");
        assert_eq!(fresh.correlation_id().as_ref().unwrap().as_str(), "c-1");
        assert_eq!(*fresh.delivery_mode(), Some(PERSISTENT));
        assert_eq!((fresh.reply_to(), fresh.expiration(), fresh.user_id()), (&None, &None, &None));
    }
}
