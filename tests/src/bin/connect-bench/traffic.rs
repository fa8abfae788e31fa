//! The events that are sent: new contacts and known ones in equal parts.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// The contact and the id of one event.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Unique.
    pub(crate) event_id: String,
    /// Each address comes twice.
    pub(crate) email: String,
}

/// A payload of ordinary size.
pub(crate) const PAYLOAD: &str = r#"{"source":"newsletter","page":"/journeys/kerala-backwaters","interests":["houseboat","ayurveda","spice gardens"],"locale":"en-IN","sessions":4,"lastSeen":"2026-05-01T09:58:12Z"}"#;

/// The next `count` events. `run` keeps apart what must not meet.
pub(crate) fn next(run: &str, count: usize) -> Vec<Sample> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = count as u64;
    let first = NEXT.fetch_add(count, Ordering::Relaxed);
    // Neighbours have different contacts: the second sight of one comes from a later batch.
    let contact = |i: u64| if i.is_multiple_of(2) { i } else { i.saturating_sub(1_001) };
    let sample = |i: u64| Sample {
        event_id: format!("{run}-{i:012}"),
        email: format!("{run}.traveller.{}@example.net", contact(i)),
    };
    (first..first + count).map(sample).collect()
}

/// The batch as a partner sends it.
pub(crate) fn body(samples: &[Sample]) -> String {
    let mut body = String::with_capacity(samples.len() * 600);
    body.push_str(r#"{"events":["#);
    for (i, Sample { event_id, email }) in samples.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let written = write!(
            body,
            r#"{comma}{{"specVersion":"1.0","eventId":"{event_id}","eventType":"contact.identified","occurredAt":"2026-05-01T10:00:00Z","tenant":"acme","origin":"website","actor":{{"type":"contact","email":"{email}","name":"Bench Traveller"}},"payload":{PAYLOAD}}}"#
        );
        written.expect("writing to a string");
    }
    body.push_str("]}");
    body
}
