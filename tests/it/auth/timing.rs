//! The cost of a refusal does not reveal which keys exist: before the first refusal of a prefix the database is asked whether it
//! has a newer key, whatever the reason (D1).

use super::{assert_unauthorized, valid};
use tests::{StatementRecorder, World};

#[tokio::test]
async fn the_first_refusal_of_any_key_costs_a_question() {
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
        // Others are asked now and then, far less often than the requests of this test arrive.
        let asked = recorder.take("ingest_keys").concat();
        assert!(asked.iter().any(|name| name == "key_revision.read"), "{why}: {asked:?}");
    }
}
