//! The cost of a refusal does not reveal which keys exist: known and unknown keys cause as many lookups (D1).

use super::{assert_unauthorized, valid};
use tests::{HttpRequest, MAX_WAIT, StatementRecorder, World, eventually};

const LOOKUP: &str = "api_keys.find";
const TRIES: usize = 5;

/// The number of key lookups for each of `requests`, all of which must be refused.
async fn count_lookups(world: &World, recorder: &StatementRecorder, requests: &[HttpRequest]) -> Vec<usize> {
    let mut counts = Vec::new();
    for request in requests {
        recorder.take("ingest_keys");
        assert_unauthorized(&world.http().send(request).await, "refused");
        let round_trips = recorder.take("ingest_keys");
        counts.push(
            round_trips
                .iter()
                .filter(|round_trip| round_trip.statements.iter().any(|name| name == LOOKUP))
                .count(),
        );
    }
    counts
}

/// The same for a request that is sent twice. Tries up to [`TRIES`] requests of different keys until the second one costs
/// no lookup: on a busy machine ingest may have been unable to confirm its cache in time.
async fn lookups_of_first_and_repeat(
    world: &World,
    recorder: &StatementRecorder,
    request: impl AsyncFn(usize) -> HttpRequest,
) -> Vec<usize> {
    let mut counts = Vec::new();
    for at in 0..TRIES {
        let request = request(at).await;
        counts = count_lookups(world, recorder, &[request.clone(), request]).await;
        if counts == [1, 0] {
            break;
        }
    }
    counts
}

/// Waits until ingest has polled the revision twice, so that it has seen all changes made before.
async fn until_revision_polled_twice(recorder: &StatementRecorder) {
    recorder.take("ingest_key_watch");
    let mut asked = 0;
    eventually("the revision is polled twice", MAX_WAIT, async || {
        asked += recorder.take("ingest_key_watch").len();
        if asked >= 2 { Ok(()) } else { Err(asked.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn refusals_of_unknown_known_and_revoked_keys_cost_the_same_lookups() {
    let mut world = World::with().ingests(0).start().await;
    let recorder = StatementRecorder::in_front_of(world.database.url());
    let direct = world.connectctl.clone();
    world.set("DATABASE_URL", recorder.url());
    world.add_ingest().await;
    let (mut known, mut rotated, mut revoked) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TRIES {
        known.push(world.add_key("events:ingest").await);
        rotated.push(world.add_key("events:ingest").await);
        let rotate = ["key", "rotate-secret", &rotated[rotated.len() - 1].prefix, "--overlap", "24h"];
        direct.json(&rotate).await;
        revoked.push(world.add_key("events:ingest").await);
        direct.json(&["key", "revoke", &revoked[revoked.len() - 1].prefix]).await;
    }
    until_revision_polled_twice(&recorder).await;

    let unknown = async |at: usize| {
        world.key.events(valid()).replacing("x-connect-key", format!("ck_fffffffffffffff{at}"))
    };
    let unknown = lookups_of_first_and_repeat(&world, &recorder, unknown).await;
    assert_eq!(unknown, [1, 0], "once, then remembered");
    let mismatch = async |at: usize| {
        assert_eq!(world.http().send(&known[at].events(valid())).await.status, 200);
        known[at].events(valid()).with_body("{}")
    };
    let mismatch = lookups_of_first_and_repeat(&world, &recorder, mismatch).await;
    assert_eq!(mismatch, unknown, "a MAC that fails");
    let two_secrets = async |at: usize| {
        assert_eq!(world.http().send(&rotated[at].events(valid())).await.status, 200);
        rotated[at].events(valid()).with_body("{}")
    };
    let two_secrets = lookups_of_first_and_repeat(&world, &recorder, two_secrets).await;
    assert_eq!(two_secrets, unknown, "a MAC that fails with both secrets");
    let again = async |at: usize| revoked[at].events(valid());
    let again = lookups_of_first_and_repeat(&world, &recorder, again).await;
    assert_eq!(again, unknown, "a revoked key");
    let new = world.add_key("events:ingest").await;
    assert_eq!(world.http().send(&new.events(valid())).await.status, 200, "a new key works at once");
}
