//! Message authentication: the broker transports messages and is not trusted to create them.
//!
//! Each program signs what it publishes with a key derived from the operator's master key, one for each queue and one for
//! the replies of each queue. The MAC travels as the header `x-connect-mac` (`v1=<64 hex>`). It is verified where messages are consumed, before a handler sees them; what does not verify
//! is dead-lettered as [`FORGED`] and never applied. The format is described in SECURITY.md.

use super::rpc::META_HEADER;
use super::topology::{Queue, queue_name};
use crate::sealed::{MasterKey, MasterKeys};
use hmac::{Hmac, KeyInit, Mac};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use sha2::Sha256;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Header that carries the MAC of a message or reply.
pub(super) const MAC_HEADER: &str = "x-connect-mac";
/// `reason` of a dead letter whose MAC is missing or wrong.
pub(super) const FORGED: &str = "forged";
const VERSION: &str = "v1=";

/// The keys that messages and replies are signed and verified with. Cheap to clone.
#[derive(Clone)]
pub struct MessageKeys(Arc<Keys>);

#[derive(Clone)]
struct Keys {
    current: DerivedKeys,
    /// While the master key is rotated, programs with either key publish: what is signed under the other one is accepted.
    previous: Option<DerivedKeys>,
    /// Queues whose publishers do not all have the master key: messages without a MAC are accepted.
    unsigned_queues: [bool; Queue::ALL.len()],
}

/// The keys that are derived from one master key, by queue.
#[derive(Clone)]
struct DerivedKeys([QueueKeys; Queue::ALL.len()]);

#[derive(Clone)]
struct QueueKeys {
    messages: Hmac<Sha256>,
    replies: Hmac<Sha256>,
}

/// What a MAC authenticates. Each purpose has a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A message of the queue, wherever it waits: also in its dead-letter queue.
    Message(Queue),
    /// A reply to a message of the queue.
    Reply(Queue),
}

/// What a MAC covers. `reply_to` is left out because the broker writes it, and `traceparent` because only traces
/// depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignedFields<'a> {
    pub(super) message_id: Option<&'a str>,
    pub(super) correlation_id: Option<&'a str>,
    pub(super) meta: Option<&'a [u8]>,
    pub(super) body: &'a [u8],
}

/// Why a message cannot be attributed to one of the programs.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MacError {
    /// No MAC, where one is required.
    #[error("it has no MAC")]
    Unsigned,
    /// A MAC under another key, over other content, or one that cannot be parsed.
    #[error("its MAC is malformed or does not match")]
    Mismatch,
}

impl MessageKeys {
    /// The keys of the queues that begin with `prefix`. Messages are signed with the current master key, and verified with
    /// either.
    pub fn new(masters: &MasterKeys, prefix: &str) -> Self {
        Self(Arc::new(Keys {
            current: DerivedKeys::new(&masters.current, prefix),
            previous: masters.previous.as_ref().map(|previous| DerivedKeys::new(previous, prefix)),
            unsigned_queues: [false; Queue::ALL.len()],
        }))
    }

    /// The same keys, which also accept messages of `queue` without a MAC: their publishers do not have the master key.
    pub fn with_unsigned_queue(self, queue: Queue) -> Self {
        let mut keys = Arc::unwrap_or_clone(self.0);
        keys.unsigned_queues[queue as usize] = true;
        Self(Arc::new(keys))
    }

    /// The value of the header [`MAC_HEADER`].
    pub(super) fn sign(&self, purpose: Purpose, covered: SignedFields<'_>) -> AMQPValue {
        let mac = self.0.current.mac(purpose, covered).finalize().into_bytes();
        AMQPValue::LongString(format!("{VERSION}{}", hex::encode(mac)).into())
    }

    /// Verifies the MAC of a delivered message or reply in constant time.
    pub(super) fn verify(&self, purpose: Purpose, properties: &BasicProperties, body: &[u8]) -> Result<(), MacError> {
        let headers = properties.headers().as_ref().map(FieldTable::inner);
        let header = |name| headers.and_then(|headers| headers.get(&ShortString::from(name)));
        let Some(sent) = header(MAC_HEADER) else {
            return if self.accepts_unsigned(purpose) { Ok(()) } else { Err(MacError::Unsigned) };
        };
        let sent = decode(sent).ok_or(MacError::Mismatch)?;
        let meta = match header(META_HEADER) {
            Some(AMQPValue::LongString(meta)) => Some(meta.as_bytes()),
            // Consumers ignore metadata of another type, so the MAC does not cover it.
            Some(_) | None => None,
        };
        let message_id = properties.message_id().as_ref().map(ShortString::as_str);
        let correlation_id = properties.correlation_id().as_ref().map(ShortString::as_str);
        let covered = SignedFields { message_id, correlation_id, meta, body };
        let mut keys = std::iter::once(&self.0.current).chain(&self.0.previous);
        let is_valid = keys.any(|keys| keys.mac(purpose, covered).verify_slice(&sent).is_ok());
        if is_valid { Ok(()) } else { Err(MacError::Mismatch) }
    }

    fn accepts_unsigned(&self, purpose: Purpose) -> bool {
        matches!(purpose, Purpose::Message(queue) if self.0.unsigned_queues[queue as usize])
    }
}

impl DerivedKeys {
    fn new(master: &MasterKey, prefix: &str) -> Self {
        let derive = |kind: &str, queue| {
            let key = master.derive(&format!("connect/{kind}/v1/{}", queue_name(prefix, queue)));
            Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length")
        };
        Self(Queue::ALL.map(|queue| QueueKeys { messages: derive("message", queue), replies: derive("reply", queue) }))
    }

    fn mac(&self, purpose: Purpose, covered: SignedFields<'_>) -> Hmac<Sha256> {
        let SignedFields { message_id, correlation_id, meta, body } = covered;
        let mut mac = match purpose {
            Purpose::Message(queue) => self.0[queue as usize].messages.clone(),
            Purpose::Reply(queue) => self.0[queue as usize].replies.clone(),
        };
        // Each field with its length, so that no field can be taken for a part of another; the body comes last.
        for field in [message_id.map(str::as_bytes), correlation_id.map(str::as_bytes), meta] {
            match field {
                None => mac.update(&[0]),
                Some(field) => {
                    mac.update(&[1]);
                    mac.update(&u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
                    mac.update(field);
                }
            }
        }
        mac.update(body);
        mac
    }
}

impl fmt::Debug for MessageKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The MAC in the header's value.
fn decode(header: &AMQPValue) -> Option<[u8; 32]> {
    let AMQPValue::LongString(text) = header else { return None };
    let mut mac = [0; 32];
    hex::decode_to_slice(text.as_bytes().strip_prefix(VERSION.as_bytes())?, &mut mac).ok()?;
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    const EVENTS: Purpose = Purpose::Message(Queue::Events);
    const BODY: &[u8] = b"{}";

    fn keys(fill: u8, prefix: &str) -> MessageKeys {
        MessageKeys::new(&master(fill).into(), prefix)
    }

    fn master(fill: u8) -> MasterKey {
        MasterKey::parse(&STANDARD.encode([fill; 32])).unwrap()
    }

    fn properties(message_id: Option<&str>, correlation_id: Option<&str>, meta: &str) -> BasicProperties {
        let mut properties = BasicProperties::default();
        if let Some(id) = message_id {
            properties = properties.with_message_id(id.into());
        }
        if let Some(id) = correlation_id {
            properties = properties.with_correlation_id(id.into());
        }
        let mut headers = FieldTable::default();
        headers.insert(META_HEADER.into(), AMQPValue::LongString(meta.into()));
        let covered = SignedFields { message_id, correlation_id, meta: Some(meta.as_bytes()), body: BODY };
        headers.insert(MAC_HEADER.into(), keys(1, "p").sign(EVENTS, covered));
        properties.with_headers(headers)
    }

    /// The same with the header of `signed`.
    fn moved(signed: &BasicProperties, mut to: BasicProperties) -> BasicProperties {
        let mut headers = to.headers().clone().unwrap();
        let mac = signed.headers().as_ref().unwrap().inner()[MAC_HEADER].clone();
        headers.insert(MAC_HEADER.into(), mac);
        to = to.with_headers(headers);
        to
    }

    #[test]
    fn a_signed_message_verifies_for_its_queue_and_keys_only() {
        let signed = properties(Some("m"), Some("c"), "{}");
        assert_eq!(keys(1, "p").verify(EVENTS, &signed, BODY), Ok(()));
        assert_eq!(keys(2, "p").verify(EVENTS, &signed, BODY), Err(MacError::Mismatch));
        assert_eq!(keys(1, "q").verify(EVENTS, &signed, BODY), Err(MacError::Mismatch));
        for queue in [Queue::Records, Queue::Crm, Queue::Webhooks] {
            assert_eq!(keys(1, "p").verify(Purpose::Message(queue), &signed, BODY), Err(MacError::Mismatch));
        }
        let reply = Purpose::Reply(Queue::Events);
        assert_eq!(keys(1, "p").verify(reply, &signed, BODY), Err(MacError::Mismatch));
    }

    #[test]
    fn a_message_under_the_previous_key_verifies_and_what_is_signed_is_under_the_current_one() {
        let rotating = |current, previous| {
            let masters = MasterKeys { current: master(current), previous: Some(master(previous)) };
            MessageKeys::new(&masters, "p")
        };
        let signed = properties(Some("m"), Some("c"), "{}");
        assert_eq!(rotating(2, 1).verify(EVENTS, &signed, BODY), Ok(()), "after the swap");
        assert_eq!(rotating(1, 2).verify(EVENTS, &signed, BODY), Ok(()), "before the swap");
        assert_eq!(rotating(2, 3).verify(EVENTS, &signed, BODY), Err(MacError::Mismatch));
        assert_eq!(rotating(2, 1).verify(EVENTS, &signed, b"{ }"), Err(MacError::Mismatch));
        let covered = SignedFields { message_id: None, correlation_id: None, meta: None, body: BODY };
        assert_eq!(rotating(2, 1).sign(EVENTS, covered), keys(2, "p").sign(EVENTS, covered));
    }

    #[test]
    fn every_covered_field_counts() {
        let signed = properties(Some("m"), Some("c"), "{}");
        assert_eq!(keys(1, "p").verify(EVENTS, &signed, b"{} "), Err(MacError::Mismatch));
        for other in [
            properties(Some("n"), Some("c"), "{}"),
            properties(Some("m"), Some("d"), "{}"),
            properties(Some("mc"), Some(""), "{}"),
            properties(None, Some("c"), "{}"),
            properties(Some("m"), None, "{}"),
            properties(Some("m"), Some("c"), "{ }"),
        ] {
            assert_eq!(keys(1, "p").verify(EVENTS, &moved(&signed, other), BODY), Err(MacError::Mismatch));
        }
    }

    #[test]
    fn only_a_missing_mac_can_be_accepted_for_a_queue() {
        let unsigned = BasicProperties::default();
        let crm = Purpose::Message(Queue::Crm);
        let refusing = keys(1, "p");
        assert_eq!(refusing.verify(crm, &unsigned, BODY), Err(MacError::Unsigned));
        let accepting = refusing.with_unsigned_queue(Queue::Crm);
        assert_eq!(accepting.verify(crm, &unsigned, BODY), Ok(()));
        assert_eq!(accepting.verify(EVENTS, &unsigned, BODY), Err(MacError::Unsigned));
        assert_eq!(accepting.verify(Purpose::Reply(Queue::Crm), &unsigned, BODY), Err(MacError::Unsigned));
        let mut headers = FieldTable::default();
        for wrong in ["", "v1=", "v1=00", "v2=00"] {
            headers.insert(MAC_HEADER.into(), AMQPValue::LongString(wrong.into()));
            let forged = BasicProperties::default().with_headers(headers.clone());
            assert_eq!(accepting.verify(crm, &forged, BODY), Err(MacError::Mismatch), "{wrong}");
        }
    }
}
