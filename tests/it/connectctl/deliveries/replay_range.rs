//! `delivery replay --dead` and of a time range (D26).

use super::{count, dead_letter, deliveries, row, subscribe, tenant, world};
use serde_json::json;
use tests::QueuedMessage;

#[tokio::test]
async fn replays_all_dead_deliveries_of_a_tenant_and_removes_their_dead_letters() {
    let (world, subscription) = world().await;
    world.add_tenant("zeta").await;
    let foreign = subscribe(&world, "zeta").await;
    let (acme, zeta) = (tenant(&world, "acme").await, tenant(&world, "zeta").await);
    let dead = deliveries(&world, "acme", subscription, "dead", 1_203, "2026-05-01T10:00:00Z").await;
    deliveries(&world, "acme", subscription, "delivered", 5, "2026-05-01T10:00:00Z").await;
    let others = deliveries(&world, "zeta", foreign, "dead", 2, "2026-05-01T10:00:00Z").await;
    let mut letters: Vec<_> = dead.iter().map(|id| dead_letter(acme, *id, subscription)).collect();
    letters.insert(600, dead_letter(zeta, others[0], foreign));
    letters.insert(3, QueuedMessage::new(b"not ours"));
    world.queues.publish_all("webhooks.dead", &letters).await;

    let ran = world.connectctl.run(&["delivery", "replay", "--dead", "--tenant", "acme"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.errors.lines().any(|line| line == "replayed 1203 of 1203"), "{ran:?}");
    assert!(ran.output.contains("| 1203"), "{ran:?}");
    assert_eq!((count(&world, "pending").await, count(&world, "delivered").await), (1_203, 5));
    assert_eq!(row(&world, others[0]).await["state"], "dead", "of another tenant");
    let left = world.queues.take_all("webhooks.dead").await;
    assert_eq!(left.iter().map(|letter| letter.body.len()).collect::<Vec<_>>(), [8, letters[601].body.len()]);

    let again = world.connectctl.run(&["delivery", "replay", "--dead", "--tenant", "acme", "--json"]).await;
    assert_eq!((again.json(), again.errors.as_str()), (json!({"matched": 0, "replayed": 0}), ""));
}

#[tokio::test]
async fn replays_a_time_range_including_its_start_and_excluding_its_end() {
    let (world, subscription) = world().await;
    let delivered = deliveries(&world, "acme", subscription, "delivered", 4, "2026-05-01T10:00:00Z").await;
    let dead = deliveries(&world, "acme", subscription, "dead", 4, "2026-05-01T10:00:00Z").await;
    deliveries(&world, "acme", subscription, "pending", 1, "2026-05-01T10:00:01Z").await;
    // 10:00:01 and 10:00:02, one of them in another offset.
    let range = ["--from", "2026-05-01T12:00:01+02:00", "--to", "2026-05-01T10:00:03Z"];
    let replay = [&["delivery", "replay", "--tenant", "acme"], range.as_slice()].concat();

    let only_dead = world.connectctl.json(&[replay.as_slice(), &["--dead"]].concat()).await;
    assert_eq!(only_dead, json!({"matched": 2, "replayed": 2}));
    assert_eq!(
        world.connectctl.json(&replay).await,
        json!({"matched": 2, "replayed": 2}),
        "now the delivered ones"
    );
    assert_eq!(
        world.connectctl.json(&replay).await,
        json!({"matched": 0, "replayed": 0}),
        "they are pending"
    );
    for ids in [delivered, dead] {
        for (id, replayed) in ids.iter().zip([false, true, true, false]) {
            assert_eq!(row(&world, *id).await["state"] == "pending", replayed, "{id}");
        }
    }
    let reversed = ["--from", "2026-05-02T00:00:00Z", "--to", "2026-05-01T00:00:00Z"];
    let reversed = [&["delivery", "replay", "--tenant", "acme"], reversed.as_slice()].concat();
    assert!(world.connectctl.refusal(&reversed).await.contains("before"));
}

#[tokio::test]
async fn a_killed_replay_leaves_each_delivery_dead_or_replayed_and_the_next_run_finishes() {
    let (world, subscription) = world().await;
    let total = 5_000;
    let dead = deliveries(&world, "acme", subscription, "dead", total, "2026-05-01T10:00:00Z").await;
    // The command is blocked at one of the last deliveries.
    let blocker = world.database.connect().await;
    let hold = format!("BEGIN; SELECT FROM deliveries WHERE delivery_id = '{}' FOR UPDATE", dead[4_900]);
    blocker.batch_execute(&hold).await.expect("nobody has it");
    let mut command = world.connectctl.start(&["delivery", "replay", "--dead", "--tenant", "acme"]);
    let waiting = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    world.database.until_lock_wait().await;
    command.kill().await.expect("it can be killed");
    world.database.execute(&format!("SELECT pg_terminate_backend(pid, 60000) {waiting}")).await;
    blocker.batch_execute("ROLLBACK").await.expect("the row is free");
    let replayed = count(&world, "pending").await;
    assert!((1..i64::from(total)).contains(&replayed), "{replayed} replayed");
    assert_eq!(replayed + count(&world, "dead").await, i64::from(total));
    let whole = "SELECT count(*) FROM deliveries WHERE state = 'pending' AND parked_at IS NOT NULL AND attempts_before = 6";
    assert_eq!(world.database.count(whole).await, replayed);
    let rest = world.connectctl.json(&["delivery", "replay", "--dead", "--tenant", "acme"]).await;
    assert_eq!(rest["replayed"], i64::from(total) - replayed);
}
