//! The advisor action: the only message that is applied without a MAC.

use super::ensure;
use super::random::Random;
use common::advisor::{ACTION_BYTES, AdvisorAction};
use serde_json::{Value, json};

const LEAD: &str = "0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";

/// A valid action of each kind.
fn action(random: &mut Random) -> Value {
    let actions = [
        json!({"action": "open-lead", "email": "ana@example.com", "name": "Ana", "title": "Goa"}),
        json!({"action": "open-lead", "client": LEAD, "noTrip": true}),
        json!({"action": "assign", "lead": LEAD, "owner": "asha@acme.test"}),
        json!({"action": "stage", "lead": LEAD, "stage": "lost", "reason": "too \"dear\" \u{fc}"}),
        json!({"action": "archive", "lead": LEAD}),
        json!({"action": "travelled", "lead": LEAD}),
        json!({"action": "proposal-send", "lead": LEAD, "title": "T", "url": "https://a.example/p?q=1", "channel": "email"}),
        json!({"action": "proposal-view", "lead": LEAD}),
        json!({"action": "proposal-discard", "lead": LEAD}),
        json!({"action": "booking-confirm", "lead": LEAD, "bookingRef": "BR-1", "amount": 125_000.5, "currency": "INR", "creditUsed": 10}),
        json!({"action": "booking-cancel", "bookingRef": "BR-1", "reason": "ill"}),
    ];
    let mut action = random.one_of(&actions).clone();
    action["tenant"] = json!("ACME");
    action
}

/// A valid action is parsed; a damaged one is refused with its faults, or contains nothing that the database or the log
/// could not store.
pub(super) fn check(random: &mut Random) -> Result<(), String> {
    let mut body = action(random).to_string().into_bytes();
    AdvisorAction::parse(&body).map_err(|refusal| format!("a valid action is refused: {refusal:?}"))?;
    if random.once_in(50) {
        body.resize(ACTION_BYTES + 1, b' ');
        return ensure(AdvisorAction::parse(&body).is_err(), || "a body that is too long is read".to_owned());
    }
    random.damage(&mut body);
    let shown = || String::from_utf8_lossy(&body).into_owned();
    match AdvisorAction::parse(&body) {
        Ok(read) => {
            ensure(read.tenant == "acme" || read.tenant == read.tenant.to_lowercase(), || {
                format!("tenant {:?} of {}", read.tenant, shown())
            })?;
            // Other control characters are a part of an id like any other: logs and replies escape them.
            let printed = format!("{read:?}").replace("\\\\", "");
            ensure(!printed.contains("\\0"), || format!("a NUL in a text of {}", shown()))
        }
        Err(refusal) => {
            let faults = refusal.body()["message"].as_str().is_some_and(|message| !message.is_empty());
            ensure(faults, || format!("no fault is named of {}", shown()))
        }
    }
}
