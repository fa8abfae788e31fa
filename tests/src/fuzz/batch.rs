//! The body of a batch: the worker parses whatever ingest accepts.

use super::ensure;
use super::random::Random;
use crate::event::{batch, event};
use common::event::{InboundType, parse_batch, read_batch};
use serde_json::json;

const TENANT: &str = "acme";

/// A batch that is valid or was damaged.
fn body(random: &mut Random) -> Vec<u8> {
    let events: Vec<_> = (0..=random.below(3))
        .map(|_| {
            let kind = random.one_of(InboundType::ALL).as_str();
            let payload = json!({"n": random.next(), "list": [null, {"deep": [[]]}], "text": "\u{fc}\"\\"});
            let event = event(kind).id(&format!("e-{}", random.next())).email("ana@example.com");
            if random.once_in(2) { event.payload(payload) } else { event }
        })
        .collect();
    let mut body = batch(&events);
    if !random.once_in(4) {
        random.damage(&mut body);
    }
    body
}

/// The worker reads each body that ingest accepts as ingest does.
pub(super) fn check(random: &mut Random) -> Result<(), String> {
    let body = body(random);
    let Ok(read) = read_batch(&body, TENANT) else { return Ok(()) };
    let envelopes = parse_batch(&body, TENANT).map_err(|faults| format!("refused by the worker: {faults}"))?;
    ensure(format!("{read:?}") == format!("{envelopes:?}"), || "read differently".to_owned())
}
