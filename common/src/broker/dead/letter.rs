//! What a dead letter tells of itself.

use crate::broker::rpc::META_HEADER;
use chrono::{DateTime, Utc};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};

/// Persistent: what is put back survives a restart of the broker.
const PERSISTENT: u8 = 2;

/// Headers that the broker writes, or acts on when a message is published. A message that is put back starts afresh:
/// deaths and deliveries of before don't count towards its limits, and it goes to no other queue.
const OF_THE_BROKER: [&str; 11] = [
    "x-death",
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    "x-delivery-count",
    "x-acquired-count",
    "CC",
    "BCC",
];

/// A message of a dead-letter queue, without its body: that may hold a person's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// How it died, the last time first; empty when it was put there directly. From the header `x-death`, as RabbitMQ
    /// writes it from 3.10 on.
    pub deaths: Vec<Death>,
    /// The publisher's id of the message.
    pub message_id: Option<String>,
    /// The publisher's metadata: JSON when it is ours.
    pub meta: Option<String>,
    /// Size of the body.
    pub bytes: usize,
}

/// One way in which a message died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The full name of the queue in which it died.
    pub queue: String,
    /// The broker's word: `rejected`, `expired`, `maxlen` or `delivery_limit`.
    pub reason: String,
    /// When it died so for the first time, to the second.
    pub at: Option<DateTime<Utc>>,
    /// How often it did.
    pub count: u64,
}

impl DeadLetter {
    pub(super) fn read(properties: &BasicProperties, bytes: usize) -> Self {
        let header = |name| properties.headers().as_ref()?.inner().get(&ShortString::from(name));
        let deaths = match header("x-death") {
            Some(AMQPValue::FieldArray(deaths)) => read_deaths(deaths),
            Some(_) | None => Vec::new(),
        };
        let message_id = properties.message_id().as_ref().map(ToString::to_string);
        Self { deaths, message_id, meta: header(META_HEADER).and_then(text), bytes }
    }

    /// How it died in the queue of that full name; the waits of a webhook's retries are deaths, too.
    pub fn death_in(&self, queue: &str) -> Option<&Death> {
        self.deaths.iter().find(|death| death.queue == queue)
    }
}

fn read_deaths(deaths: &FieldArray) -> Vec<Death> {
    deaths.as_slice().iter().filter_map(read_death).collect()
}

fn read_death(death: &AMQPValue) -> Option<Death> {
    let AMQPValue::FieldTable(death) = death else { return None };
    let field = |name| death.inner().get(&ShortString::from(name));
    let at = match field("time") {
        Some(AMQPValue::Timestamp(seconds)) => DateTime::from_timestamp(i64::try_from(*seconds).ok()?, 0),
        Some(_) | None => None,
    };
    let count = match field("count") {
        Some(AMQPValue::LongLongInt(count)) => u64::try_from(*count).unwrap_or_default(),
        Some(_) | None => 1,
    };
    Some(Death { queue: text(field("queue")?)?, reason: text(field("reason")?)?, at, count })
}

fn text(value: &AMQPValue) -> Option<String> {
    let AMQPValue::LongString(text) = value else { return None };
    std::str::from_utf8(text.as_bytes()).ok().map(str::to_owned)
}

/// What a message is put back with: all that its publisher gave it, except for whom an answer would go to, who has long
/// given up waiting, and for how long it was to live.
pub(super) fn afresh(properties: &BasicProperties) -> BasicProperties {
    let mut fresh = BasicProperties::default().with_delivery_mode(PERSISTENT);
    if let Some(headers) = properties.headers() {
        let mut kept = FieldTable::default();
        for (name, value) in headers.inner() {
            if !OF_THE_BROKER.contains(&name.as_str()) {
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

    fn death(queue: &str, reason: &str) -> AMQPValue {
        AMQPValue::FieldTable(table(&[
            ("queue", long(queue)),
            ("reason", long(reason)),
            ("time", AMQPValue::Timestamp(1_777_629_600)),
            ("count", AMQPValue::LongLongInt(3)),
            ("exchange", long("")),
        ]))
    }

    fn dead() -> BasicProperties {
        let deaths = vec![death("p.webhooks", "rejected"), death("p.webhooks.retry.0", "expired")];
        BasicProperties::default()
            .with_headers(table(&[
                ("x-death", AMQPValue::FieldArray(deaths.into())),
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
    fn a_dead_letter_says_where_when_and_why_it_died() {
        let letter = DeadLetter::read(&dead(), 12);
        let last = letter.death_in("p.webhooks").unwrap();
        assert_eq!((last.reason.as_str(), last.count), ("rejected", 3));
        assert_eq!(crate::clock::to_text(last.at.unwrap()), "2026-05-01T10:00:00.000Z");
        assert_eq!(letter.deaths[1].reason, "expired");
        assert_eq!((letter.message_id.as_deref(), letter.meta.as_deref()), (Some("m-1"), Some("{}")));
        assert_eq!((letter.bytes, letter.death_in("p.events")), (12, None));
    }

    #[test]
    fn what_was_put_there_directly_or_oddly_has_no_deaths() {
        assert_eq!(DeadLetter::read(&BasicProperties::default(), 0).deaths, []);
        for odd in [long("x"), AMQPValue::FieldArray(vec![long("x")].into())] {
            let properties = BasicProperties::default().with_headers(table(&[("x-death", odd)]));
            assert_eq!(DeadLetter::read(&properties, 0).deaths, []);
        }
    }

    #[test]
    fn what_is_put_back_starts_afresh_with_its_ids_and_without_a_waiting_caller() {
        let fresh = afresh(&dead());
        let headers: Vec<&str> =
            fresh.headers().as_ref().unwrap().inner().keys().map(ShortString::as_str).collect();
        assert_eq!(headers, ["traceparent", META_HEADER]);
        assert_eq!(fresh.message_id().as_ref().unwrap().as_str(), "m-1");
        assert_eq!(fresh.correlation_id().as_ref().unwrap().as_str(), "c-1");
        assert_eq!(*fresh.delivery_mode(), Some(PERSISTENT));
        assert_eq!((fresh.reply_to(), fresh.expiration(), fresh.user_id()), (&None, &None, &None));
    }
}
