//! The schemas that the description names under `components`.

pub(super) mod bodies;
pub(super) mod event_types;
pub(super) mod events;
pub(super) mod outbound;
pub(super) mod payloads;
pub(super) mod records;

pub use events::RESERVED;

use super::schema::Schema;

/// All named schemas except those of refusals, in the order in which they are shown.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    let groups =
        [bodies::all(), records::all(), event_types::all(), events::all(), payloads::all(), outbound::all()];
    groups.into_iter().flatten().collect()
}
