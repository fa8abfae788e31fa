//! How old a signature may be. `records/credentials.rs` has what it covers.

use super::{assert_unauthorized, valid};
use tests::{World, now};

#[tokio::test]
async fn accepts_timestamps_up_to_five_minutes_old_or_ahead() {
    let world = World::shared().await;
    let http = world.http();
    assert_unauthorized(&http.send(&world.key.events_at(now() - 301, valid())).await, "too old");
    assert_unauthorized(&http.send(&world.key.events_at(now() + 310, valid())).await, "too far ahead");
    assert_unauthorized(&http.send(&world.key.events_at(0, valid())).await, "of 1970");
    assert_unauthorized(&http.send(&world.key.events_at(now() * 1000, valid())).await, "in milliseconds");
    // Less than 300 s, because time passes while the request is under way.
    assert_eq!(http.send(&world.key.events_at(now() - 295, valid())).await.status, 200);
    assert_eq!(http.send(&world.key.events_at(now() + 300, valid())).await.status, 200);
}
