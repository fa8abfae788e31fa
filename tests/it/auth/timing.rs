//! What a refusal costs doesn't tell which keys there are: the database is asked as often for one that is known (D1).

use super::{assert_unauthorized, valid};
use tests::{Outgoing, PATIENCE, StatementRecorder, World, eventually};

const LOOK_UP: &str = "api_keys.find";
const TRIES: usize = 5;

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

/// The same for a request that is sent twice, in the first of a few tries, each with a key of its own, in which ingest
/// remembered the first time: on a busy machine it may not have had that confirmed lately.
async fn look_ups_of_two(
    world: &World,
    recorder: &StatementRecorder,
    request: impl AsyncFn(usize) -> Outgoing,
) -> Vec<usize> {
    let mut counts = Vec::new();
    for at in 0..TRIES {
        let request = request(at).await;
        counts = look_ups(world, recorder, &[request.clone(), request]).await;
        if counts == [1, 0] {
            break;
        }
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
    let (mut known, mut revoked) = (Vec::new(), Vec::new());
    for _ in 0..TRIES {
        known.push(world.add_key("events:ingest").await);
        revoked.push(world.add_key("events:ingest").await);
        direct.json(&["key", "revoke", &revoked[revoked.len() - 1].prefix]).await;
    }
    until_told(&recorder).await;

    let unknown = async |at: usize| {
        world.key.events(valid()).replacing("x-connect-key", format!("ck_fffffffffffffff{at}"))
    };
    let unknown = look_ups_of_two(&world, &recorder, unknown).await;
    assert_eq!(unknown, [1, 0], "once, then remembered");
    let mismatch = async |at: usize| {
        assert_eq!(world.http().send(&known[at].events(valid())).await.status, 200);
        known[at].events(valid()).with_body("{}")
    };
    let mismatch = look_ups_of_two(&world, &recorder, mismatch).await;
    assert_eq!(mismatch, unknown, "a MAC that fails");
    let again = async |at: usize| revoked[at].events(valid());
    let again = look_ups_of_two(&world, &recorder, again).await;
    assert_eq!(again, unknown, "a revoked key");
    let new = world.add_key("events:ingest").await;
    assert_eq!(world.http().send(&new.events(valid())).await.status, 200, "a new key works at once");
}
