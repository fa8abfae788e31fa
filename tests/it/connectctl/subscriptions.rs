//! `subscription`.

use super::fields;
use serde_json::json;
use tests::{World, text, words};

#[tokio::test]
async fn creates_changes_pauses_resumes_and_removes_a_subscription() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let options = ["--key", &world.key.prefix, "--events", "lead.assigned,booking.confirmed"];
    let create = words("subscription create --tenant acme --url https://1.1.1.1/hooks");
    let made = connectctl.json(&[&create, &options[..]].concat()).await;
    assert_eq!(fields(&made), ["id", "secret"]);
    let (id, secret) = (text(&made["id"]), text(&made["secret"]));

    let list = async || connectctl.list(&["subscription", "list", "--tenant", "acme"]).await;
    let [listed] = &list().await[..] else { panic!("one subscription") };
    assert_eq!((&listed["id"], &listed["url"]), (&made["id"], &json!("https://1.1.1.1/hooks")));
    assert!(!listed.to_string().contains(secret), "the secret is listed");
    for (command, state) in [("pause", "paused"), ("resume", "active")] {
        let changed = connectctl.json(&["subscription", command, id]).await;
        assert_eq!((&changed["id"], &changed["state"]), (&made["id"], &json!(state)));
        assert_eq!(list().await, [changed]);
    }
    connectctl.json(&["subscription", "remove", id]).await;
    assert!(list().await.is_empty());
    for command in ["pause", "resume", "remove", "rotate-secret"] {
        let refusal = connectctl.refusal(&["subscription", command, id]).await;
        assert!(refusal.contains("was removed"), "{command}: {refusal}");
    }

    let made = connectctl.json(&create).await;
    let id = text(&made["id"]);
    let set = async |options: &str| {
        let line = format!("subscription events {id} {options}");
        connectctl.json(&words(&line)).await["events"].clone()
    };
    assert_eq!(set("--set lead.assigned,proposal.sent").await, json!(["lead.assigned", "proposal.sent"]));
    assert_eq!(set("--all").await, json!(null));
    let unknown = connectctl.refusal(&["subscription", "events", id, "--set", "webhook.test"]).await;
    assert!(unknown.contains("unknown event type"), "{unknown}");
    connectctl.json(&["subscription", "remove", id]).await;
    let removed = connectctl.refusal(&["subscription", "events", id, "--all"]).await;
    assert!(removed.contains("was removed"), "{removed}");
}
