//! `subscription`.

use super::fields;
use serde_json::json;
use tests::{World, text};

#[tokio::test]
async fn creates_pauses_resumes_and_removes_a_subscription() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let create = [
        "subscription",
        "create",
        "--tenant",
        "acme",
        "--url",
        "https://1.1.1.1/hooks",
        "--key",
        &world.key.prefix,
        "--events",
        "lead.assigned,booking.confirmed",
    ];
    let made = connectctl.json(&create).await;
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
}

#[tokio::test]
async fn rejects_a_receiver_url_that_is_not_public_https() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let connectctl = &connectctl.without("CONNECT_WEBHOOK_ALLOW_PRIVATE");
    for url in [
        "http://1.1.1.1/hooks",
        "https://10.0.0.1/",
        "https://[::ffff:127.0.0.1]/",
        "https://no-such-name.invalid/",
        "https://1.1.1.1:22/",
        "",
    ] {
        let ran =
            connectctl.run(&["subscription", "create", "--tenant", "acme", "--url", url, "--json"]).await;
        assert_ne!(ran.code, Some(0), "{url}");
        assert_eq!(ran.output, "", "{url}");
    }
    assert!(connectctl.list(&["subscription", "list", "--tenant", "acme"]).await.is_empty());
}

#[tokio::test]
async fn rejects_unknown_event_types_and_keys_of_another_tenant() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    world.add_tenant("zeta").await;
    for (tenant, option, value) in [
        ("acme", "--events", "lead.deleted"),
        ("acme", "--events", "proposal.ready"),
        ("acme", "--events", "message.posted"),
        ("acme", "--key", "ck_unknown"),
        ("zeta", "--key", &world.key.prefix),
        ("nobody", "--events", "lead.assigned"),
    ] {
        let ran = connectctl
            .run(&["subscription", "create", "--tenant", tenant, "--url", "https://1.1.1.1/", option, value])
            .await;
        assert_eq!(ran.code, Some(1), "{tenant} {option} {value}: {ran:?}");
    }
}

#[tokio::test]
async fn changes_the_event_types_of_a_subscription() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let create = ["subscription", "create", "--tenant", "acme", "--url", "https://1.1.1.1/hooks"];
    let made = connectctl.json(&create).await;
    let id = text(&made["id"]);
    let set = async |options: &[&str]| {
        connectctl.json(&[&["subscription", "events", id], options].concat()).await["events"].clone()
    };
    assert_eq!(
        set(&["--set", "lead.assigned,proposal.sent"]).await,
        json!(["lead.assigned", "proposal.sent"])
    );
    assert_eq!(set(&["--all"]).await, json!(null));
    let unknown = connectctl.refusal(&["subscription", "events", id, "--set", "webhook.test"]).await;
    assert!(unknown.contains("unknown event type"), "{unknown}");
    connectctl.json(&["subscription", "remove", id]).await;
    let removed = connectctl.refusal(&["subscription", "events", id, "--all"]).await;
    assert!(removed.contains("was removed"), "{removed}");
}
