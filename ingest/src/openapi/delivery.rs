//! How webhooks are delivered (specification: Delivery rules; D26). These are the defaults of the dispatcher's
//! settings; a test compares them.

use serde_json::{Value, json};

/// Attempts of a delivery, the first included.
pub(super) const ATTEMPTS: u32 = 6;
/// The wait after the first attempt; each is twice the one before.
pub(super) const FIRST_WAIT_SECONDS: u32 = 30;
pub(super) const LONGEST_WAIT_SECONDS: u32 = 3_600;
/// How long a receiver may take.
pub(super) const TIMEOUT_SECONDS: u32 = 10;

/// The schedule as `x-delivery`.
pub(super) fn rules() -> Value {
    json!({
        "attempts": ATTEMPTS,
        "firstWaitSeconds": FIRST_WAIT_SECONDS,
        "longestWaitSeconds": LONGEST_WAIT_SECONDS,
        "timeoutSeconds": TIMEOUT_SECONDS,
    })
}

/// The waits in words.
pub(super) fn waits() -> String {
    let wait = |made: u32| (FIRST_WAIT_SECONDS << made).min(LONGEST_WAIT_SECONDS);
    let waits: Vec<String> = (0..ATTEMPTS - 1).map(|made| wait(made).to_string()).collect();
    format!("{} seconds", waits.join(", "))
}
