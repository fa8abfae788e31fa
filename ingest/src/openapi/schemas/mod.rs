//! The named schemas.

pub(super) mod bodies;
pub(super) mod events;
pub(super) mod outbound;
pub(super) mod payloads;
pub(super) mod records;

pub use events::RESERVED;

use super::schema::Schema;

/// All of them but those of refusals, by name, in the order in which they are described.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    let groups = [bodies::all(), records::all(), events::all(), payloads::all(), outbound::all()];
    groups.into_iter().flatten().collect()
}
