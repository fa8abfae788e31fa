//! What cargo and make hand to the harness.

/// A variable that is set.
#[expect(clippy::disallowed_methods, reason = "these are no settings of a program")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
