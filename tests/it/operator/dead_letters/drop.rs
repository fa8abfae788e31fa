//! `queue drop`.

use super::{poison, until_dead, world};
use serde_json::json;
use tests::CommandOutput;

#[tokio::test]
async fn drops_dead_letters_only_with_confirmation() {
    let world = world().await;
    world.queues.publish_all("records", &poison(300)).await;
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
async fn asks_for_confirmation_on_a_terminal() {
    let world = world().await;
    world.queues.publish_all("events", &poison(3)).await;
    until_dead(&world, "events", 3).await;
    let drop_with_answer = async |answer: &str| {
        let drop = "script --quiet --return --command 'connectctl queue drop events --dead' /dev/null";
        let settings: Vec<_> =
            world.settings().iter().cloned().chain([("TERM".to_owned(), "xterm".to_owned())]).collect();
        let ran = CommandOutput::bash(&format!("echo {answer} | {drop}"), &settings).await;
        assert!(ran.output.contains("to drop: 3. Their content is lost for good."), "{ran:?}");
        ran
    };
    for answer in ["n", "''", "Yes!"] {
        let ran = drop_with_answer(answer).await;
        assert!(ran.code == Some(1) && ran.output.contains("nothing is dropped"), "{ran:?}");
        until_dead(&world, "events", 3).await;
    }
    assert_eq!(drop_with_answer("y").await.code, Some(0));
    until_dead(&world, "events", 0).await;
}
