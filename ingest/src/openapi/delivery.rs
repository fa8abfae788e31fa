//! How webhooks are delivered (specification: Delivery rules; D26). The dispatcher's settings decide; a test
//! compares these with their defaults.

use serde_json::{Value, json};

/// Attempts in all.
pub(super) const ATTEMPTS: u32 = 6;
/// The wait after the first attempt; each is twice the one before.
pub(super) const FIRST_WAIT_SECONDS: u32 = 30;
/// The longest wait.
pub(super) const LONGEST_WAIT_SECONDS: u32 = 3_600;
/// How long a receiver may take.
pub(super) const TIMEOUT_SECONDS: u32 = 10;

/// For programs.
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
