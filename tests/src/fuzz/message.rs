//! The properties of a message: ids, headers of any AMQP type, and the MAC over them (SECURITY.md).

use super::ensure;
use super::random::Random;
use crate::MASTER_KEY;
use crate::mac::{MAC_HEADER, with_mac};
use common::broker::{MacError, Message, MessageKeys, Queue, queue_name};
use common::sealed::MasterKey;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable};

const PREFIX: &str = "fuzz";
const META_HEADER: &str = "x-connect-meta";
const TRACEPARENT: &str = "traceparent";
const QUEUES: [Queue; 4] = [Queue::Events, Queue::Records, Queue::Crm, Queue::Webhooks];

/// A message whose parts the check changes.
#[derive(Clone)]
struct SentMessage {
    queue: Queue,
    message_id: Option<String>,
    correlation_id: Option<String>,
    headers: FieldTable,
    body: Vec<u8>,
}

impl SentMessage {
    fn new(random: &mut Random) -> Self {
        let mut headers = FieldTable::default();
        for name in [META_HEADER, TRACEPARENT, "x-death", "cc"] {
            if !random.once_in(4) {
                headers.insert(name.into(), value(random, 2));
            }
        }
        Self {
            queue: *random.one_of(&QUEUES),
            message_id: id(random),
            correlation_id: id(random),
            headers,
            body: random.bytes(100),
        }
    }

    fn properties(&self) -> BasicProperties {
        let mut properties = BasicProperties::default().with_headers(self.headers.clone());
        if let Some(id) = &self.message_id {
            properties = properties.with_message_id(id.as_str().into());
        }
        if let Some(id) = &self.correlation_id {
            properties = properties.with_correlation_id(id.as_str().into());
        }
        properties
    }

    /// A copy with the MAC of a program that has the key.
    fn signed(mut self) -> Self {
        let name = queue_name(PREFIX, self.queue);
        let properties = with_mac(MASTER_KEY, &name, &self.body, self.properties());
        self.headers = properties.headers().clone().unwrap_or_default();
        self
    }

    fn read(&self, keys: &MessageKeys) -> (Message, Result<(), MacError>) {
        Message::from_delivery(self.queue, keys, self.properties(), self.body.clone())
    }

    /// The parts that the MAC covers, in addition to the queue.
    fn covered(&self) -> [Option<&[u8]>; 4] {
        [
            self.message_id.as_deref().map(str::as_bytes),
            self.correlation_id.as_deref().map(str::as_bytes),
            long(&self.headers, META_HEADER),
            Some(&self.body),
        ]
    }

    /// Replaces one part that the MAC covers; the new value may equal the old one.
    fn change(&mut self, random: &mut Random) {
        match random.below(5) {
            0 => self.message_id = id(random),
            1 => self.correlation_id = id(random),
            2 => drop(self.headers.insert(META_HEADER.into(), value(random, 2))),
            3 => random.damage(&mut self.body),
            // What one field ends with is what the next one begins with.
            _ => std::mem::swap(&mut self.message_id, &mut self.correlation_id),
        }
    }

    /// Damages the MAC, or puts a value of another type in its place. Returns whether the MAC is still equivalent.
    fn damage_mac(&mut self, random: &mut Random) -> bool {
        let mac = long(&self.headers, MAC_HEADER).unwrap_or_default().to_vec();
        let mut damaged = mac.clone();
        random.damage(&mut damaged);
        let other = match random.below(3) {
            0 => value(random, 1),
            1 => AMQPValue::LongString(mac.to_ascii_uppercase().into()),
            _ => AMQPValue::LongString(damaged.into()),
        };
        self.headers.insert(MAC_HEADER.into(), other);
        // Either case of the hex digits means the same; the version has one.
        let text = long(&self.headers, MAC_HEADER).unwrap_or_default();
        text.starts_with(b"v1=") && text.eq_ignore_ascii_case(&mac)
    }
}

/// The text of a header, if it is one.
fn long<'t>(headers: &'t FieldTable, name: &str) -> Option<&'t [u8]> {
    match headers.inner().get(name) {
        Some(AMQPValue::LongString(text)) => Some(text.as_bytes()),
        _ => None,
    }
}

fn id(random: &mut Random) -> Option<String> {
    match random.below(4) {
        0 => None,
        1 => Some(" ".repeat(random.below(3))),
        2 => Some(format!("id-{}", random.next())),
        _ => Some(uuid::Uuid::from_u64_pair(random.next(), random.next()).to_string()),
    }
}

/// A header's value, of any of the types that AMQP has; nested at most `depth` times.
fn value(random: &mut Random, depth: u8) -> AMQPValue {
    let kinds = if depth == 0 { 9 } else { 11 };
    match random.below(kinds) {
        0 => AMQPValue::Boolean(random.once_in(2)),
        1 => AMQPValue::ShortShortInt(-1),
        2 => AMQPValue::LongLongInt(i64::from_le_bytes(random.next().to_le_bytes())),
        3 => AMQPValue::Double(f64::NAN),
        4 => AMQPValue::ShortString("{}".into()),
        5 => AMQPValue::Timestamp(random.next()),
        6 => AMQPValue::ByteArray(random.bytes(20).into()),
        7 => AMQPValue::Void,
        9 => {
            let mut array = FieldArray::default();
            array.push(value(random, depth - 1));
            AMQPValue::FieldArray(array)
        }
        10 => {
            let mut table = FieldTable::default();
            table.insert(MAC_HEADER.into(), value(random, depth - 1));
            AMQPValue::FieldTable(table)
        }
        _ => AMQPValue::LongString(random.bytes(40).into()),
    }
}

/// A message that a program signed is parsed as it was sent, whatever the types of its headers. A message with a damaged
/// MAC, or one that was changed after signing, is forged; so is one without a MAC, unless a setting accepts it.
pub(super) fn check(random: &mut Random) -> Result<(), String> {
    let master = MasterKey::parse(MASTER_KEY).map_err(|_| "no master key")?;
    let keys = MessageKeys::new(&master.into(), PREFIX);
    let unsigned = SentMessage::new(random);
    let sent = unsigned.clone().signed();
    let shown = |sent: &SentMessage| format!("{:?} {:?}", sent.properties(), sent.body);

    let (message, verified) = sent.read(&keys);
    ensure(verified == Ok(()), || format!("{verified:?}: {}", shown(&sent)))?;
    let as_text = |name| long(&sent.headers, name).and_then(|text| str::from_utf8(text).ok());
    let is_same = message.body == sent.body
        && message.meta.as_deref() == as_text(META_HEADER)
        && message.traceparent.as_deref() == as_text(TRACEPARENT)
        && message.message_id.as_deref() == sent.message_id.as_deref().filter(|id| !id.trim().is_empty());
    ensure(is_same, || format!("{} is read as {message:?}", shown(&sent)))?;

    let mut changed = sent.clone();
    changed.change(random);
    let expected = if changed.covered() == sent.covered() { Ok(()) } else { Err(MacError::Mismatch) };
    let (_, verified) = changed.read(&keys);
    ensure(verified == expected, || format!("{verified:?}: {} after {}", shown(&changed), shown(&sent)))?;

    let mut other_queue = sent.clone();
    other_queue.queue = *random.one_of(&QUEUES);
    let expected = if other_queue.queue == sent.queue { Ok(()) } else { Err(MacError::Mismatch) };
    ensure(other_queue.read(&keys).1 == expected, || format!("{:?}: {}", other_queue.queue, shown(&sent)))?;

    let accepting = keys.clone().with_unsigned_queue(unsigned.queue);
    ensure(unsigned.read(&keys).1 == Err(MacError::Unsigned), || shown(&unsigned))?;
    ensure(unsigned.read(&accepting).1 == Ok(()), || shown(&unsigned))?;

    let mut damaged = sent.clone();
    let expected = if damaged.damage_mac(random) { Ok(()) } else { Err(MacError::Mismatch) };
    for keys in [&keys, &accepting] {
        let (_, verified) = damaged.read(keys);
        ensure(verified == expected, || format!("{verified:?}: {} after {}", shown(&damaged), shown(&sent)))?;
    }
    Ok(())
}
