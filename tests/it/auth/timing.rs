//! What a refusal costs doesn't tell which keys there are: the database is asked as often for one that is known (D1).

use super::{assert_unauthorized, valid};
use tests::{Outgoing, PATIENCE, StatementRecorder, World, eventually};

const LOOK_UP: &str = "api_keys.find";

/// How often keys were looked up for `requests`, all of which are refused.
async fn look_ups(world: &World, recorder: &StatementRecorder, requests: &[Outgoing]) -> Vec<usize> {
    let mut counts = Vec::new();
    for request in requests {
        recorder.take("ingest_keys");
        assert_unauthorized(&world.http().send(request).await, "refused");
        let flights = recorder.take("ingest_keys");
        counts.push(
            flights.iter().filter(|flight| flight.statements.iter().any(|name| name == LOOK_UP)).count(),
        );
    }
    counts
}

/// Waits until ingest has asked for the revision once more, by which it has heard of all changes.
async fn until_told(recorder: &StatementRecorder) {
    recorder.take("ingest_key_watch");
    let mut asked = 0;
    eventually("the revision is asked for twice", PATIENCE, async || {
        asked += recorder.take("ingest_key_watch").len();
        if asked >= 2 { Ok(()) } else { Err(asked.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn unknown_known_and_revoked_keys_are_looked_up_alike_when_a_request_is_refused() {
    let mut world = World::with().ingests(0).start().await;
    let recorder = StatementRecorder::before(world.database.url());
    let direct = world.connectctl.clone();
    world.set("DATABASE_URL", recorder.url());
    world.add_ingest().await;
    let revoked = world.add_key("events:ingest").await;
    direct.json(&["key", "revoke", &revoked.prefix]).await;
    until_told(&recorder).await;
    assert_eq!(world.http().send(&world.key.events(valid())).await.status, 200);

    let twice = |request: Outgoing| [request.clone(), request];
    let unknown = twice(world.key.events(valid()).replacing("x-connect-key", "ck_ffffffffffffffff"));
    let mismatch = twice(world.key.events(valid()).with_body("{}"));
    let unknown = look_ups(&world, &recorder, &unknown).await;
    assert_eq!(look_ups(&world, &recorder, &mismatch).await, unknown, "a MAC that fails");
    assert_eq!(unknown, [1, 0], "once, then remembered");

    let again = twice(revoked.events(valid()));
    assert_eq!(look_ups(&world, &recorder, &again).await, unknown, "a revoked key");
    let new = world.add_key("events:ingest").await;
    assert_eq!(world.http().send(&new.events(valid())).await.status, 200, "a new key works at once");
}
