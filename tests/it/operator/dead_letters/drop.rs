//! `queue drop`.

use super::{poison, until_dead, world};
use serde_json::json;
use tests::Ran;

#[tokio::test]
async fn dead_letters_are_dropped_only_when_that_is_confirmed() {
    let world = world().await;
    world.queues.put_all("records", &poison(300)).await;
    until_dead(&world, "records", 300).await;
    let refusal = world.connectctl.refusal(&["queue", "drop", "records", "--dead"]).await;
    assert!(refusal.contains("--yes"), "{refusal}");
    until_dead(&world, "records", 300).await;
    let drop = ["queue", "drop", "records", "--dead", "--yes"];
    assert_eq!(world.connectctl.json(&drop).await, json!({"dropped": 300}));
    until_dead(&world, "records", 0).await;
    assert_eq!(world.connectctl.json(&drop).await, json!({"dropped": 0}));
}

#[tokio::test]
async fn at_a_terminal_one_is_asked_before_anything_is_dropped() {
    let world = world().await;
    world.queues.put_all("events", &poison(3)).await;
    until_dead(&world, "events", 3).await;
    let answered = async |answer: &str| {
        let drop = "script --quiet --return --command 'connectctl queue drop events --dead' /dev/null";
        let settings: Vec<_> =
            world.settings().iter().cloned().chain([("TERM".to_owned(), "xterm".to_owned())]).collect();
        let ran = Ran::bash(&format!("echo {answer} | {drop}"), &settings).await;
        assert!(ran.output.contains("Drop 3 dead letters of"), "{ran:?}");
        ran
    };
    for answer in ["n", "''", "Yes!"] {
        let ran = answered(answer).await;
        assert!(ran.code == Some(1) && ran.output.contains("nothing is dropped"), "{ran:?}");
        until_dead(&world, "events", 3).await;
    }
    assert_eq!(answered("y").await.code, Some(0));
    until_dead(&world, "events", 0).await;
}
