//! What a batch must look like (specification: Event envelope, Limits; D6).

mod body;
mod http;

use tests::{Event, World, batch, event};

fn ana() -> Event {
    event("contact.identified").email("ana@example.com")
}

/// Sends a body that must be refused, and returns the error message.
async fn refuse(world: &World, body: impl Into<Vec<u8>>) -> String {
    world.http().send(&world.key.events(body.into())).await.assert_error(400, "invalid_request")
}

/// Sends a batch of one event that must be refused for what is at `place`.
async fn refuse_event(world: &World, event: &Event, place: &str) {
    let message = refuse(world, batch(std::slice::from_ref(event))).await;
    assert!(message.contains(&format!("{place}: ")), "{place} isn't named in: {message}");
}

/// Checks that the refused bodies left no row, and that valid events still pass.
async fn assert_untouched(world: &World) {
    for table in ["clients", "leads", "timeline", "event_ledger", "notifications", "outbox"] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
    world.accept(event("contact.identified").email("last@example.com")).await;
}
