//! The cost of a refusal does not reveal which keys exist: known and unknown keys cause as many lookups (D1).

use super::{assert_unauthorized, valid};
use tests::{StatementRecorder, World};

#[tokio::test]
async fn the_first_refusal_of_any_key_costs_one_lookup() {
    let mut world = World::with().ingests(0).start().await;
    let (known, rotated, revoked) = (
        world.add_key("events:ingest").await,
        world.add_key("events:ingest").await,
        world.add_key("events:ingest").await,
    );
    world.connectctl.json(&["key", "rotate-secret", &rotated.prefix, "--overlap", "24h"]).await;
    world.connectctl.json(&["key", "revoke", &revoked.prefix]).await;
    let recorder = StatementRecorder::in_front_of(world.database.url());
    world.set("DATABASE_URL", recorder.url());
    world.add_ingest().await;
    for key in [&known, &rotated] {
        assert_eq!(world.http().send(&key.events(valid())).await.status, 200);
    }
    for (why, refused) in [
        ("an unknown key", world.key.events(valid()).replacing("x-connect-key", "ck_ffffffffffffffff")),
        ("a MAC that fails", known.events(valid()).with_body("{}")),
        ("a MAC that fails with both secrets", rotated.events(valid()).with_body("{}")),
        ("a revoked key", revoked.events(valid())),
    ] {
        recorder.take("ingest_keys");
        assert_unauthorized(&world.http().send(&refused).await, why);
        let lookups = recorder.take("ingest_keys").concat();
        assert_eq!(lookups.iter().filter(|name| *name == "api_keys.find").count(), 1, "{why}");
    }
}
