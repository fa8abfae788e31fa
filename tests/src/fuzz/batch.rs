//! The body of a batch: the worker parses whatever ingest accepts, alone and in a bundle.

use super::ensure;
use super::random::Random;
use crate::event::{batch, event};
use common::bundle;
use common::event::{InboundType, parse_batch, parse_events, read_batch};
use serde_json::json;

const TENANT: &str = "acme";

/// A batch that is valid or was damaged.
pub(super) fn body(random: &mut Random) -> Vec<u8> {
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

/// The worker reads each body that ingest accepts as ingest does, and a part of a bundle is parsed like the batch that it was.
pub(super) fn check(random: &mut Random) -> Result<(), String> {
    let bodies = [body(random), body(random)];
    let mut accepted = Vec::new();
    for body in &bodies {
        let Ok(read) = read_batch(body, TENANT) else { continue };
        let envelopes = parse_batch(body, TENANT).map_err(|faults| format!("refused by the worker: {faults}"))?;
        ensure(format!("{:?}", read.envelopes) == format!("{envelopes:?}"), || "read differently".to_owned())?;
        accepted.push(read);
    }
    let texts: Vec<&[u8]> = accepted.iter().map(|batch| batch.text.as_bytes()).collect();
    for batch in &accepted {
        let part = parse_events(batch.text.as_bytes(), TENANT).map_err(|faults| format!("as a part: {faults}"))?;
        ensure(format!("{part:?}") == format!("{:?}", batch.envelopes), || {
            "a part of a bundle is parsed differently".to_owned()
        })?;
    }
    if !texts.is_empty() {
        let count: usize = accepted.iter().map(|batch| batch.envelopes.len()).sum();
        let joined = bundle::join(&texts);
        let whole = parse_batch(&joined, TENANT).map_err(|faults| format!("as a bundle: {faults}"))?;
        ensure(whole.len() == count, || format!("{} events of {count} in the bundle", whole.len()))?;
    }
    Ok(())
}
