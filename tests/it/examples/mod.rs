//! The examples for integrators, run as they are, in each language.

mod calls;
pub(crate) mod readme;
mod standard;
mod webhooks;

/// The endings of the files: shell, Python, Node.
const LANGUAGES: [&str; 3] = ["sh", "py", "mjs"];
