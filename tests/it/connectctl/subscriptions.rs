//! `subscription`.

use super::fields;
use serde_json::json;
use tests::{Connectctl, TestDatabase, text};

#[tokio::test]
async fn a_subscription_is_made_with_its_secret_paused_resumed_and_removed() {
    let database = TestDatabase::new().await;
    let connectctl = Connectctl::for_database(database.url());
    let create = [
        "subscription",
        "create",
        "--tenant",
        "acme",
        "--url",
        "https://1.1.1.1/hooks",
        "--key",
        &database.key().prefix,
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
    for command in ["pause", "resume", "remove"] {
        assert_eq!(
            connectctl.run(&["subscription", command, id]).await.code,
            Some(1),
            "{command} after its end"
        );
    }
}

#[tokio::test]
async fn a_receiver_that_is_not_public_https_is_refused() {
    let database = TestDatabase::new().await;
    let connectctl = Connectctl::for_database(database.url());
    for url in [
        "http://1.1.1.1/hooks",
        "https://127.0.0.1/",
        "https://localhost/",
        "https://10.0.0.1/",
        "https://172.16.9.9/",
        "https://192.168.1.1/",
        "https://169.254.169.254/latest",
        "https://100.64.0.1/",
        "https://0.0.0.0/",
        "https://[::1]/",
        "https://[fe80::1]/",
        "https://[fd00::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://no-such-name.invalid/",
        "https://1.1.1.1:22/",
        "https://1.1.1.1:9443/hooks",
        "ftp://1.1.1.1/",
        "1.1.1.1",
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
async fn a_subscription_takes_only_events_that_are_emitted_and_a_key_of_its_agency() {
    let database = TestDatabase::new().await;
    let connectctl = Connectctl::for_database(database.url());
    connectctl.json(&["tenant", "create", "--slug", "zeta", "--name", "Zeta"]).await;
    for (tenant, option, value) in [
        ("acme", "--events", "lead.deleted"),
        ("acme", "--key", "ck_unknown"),
        ("zeta", "--key", &database.key().prefix),
        ("nobody", "--events", "lead.assigned"),
    ] {
        let ran = connectctl
            .run(&["subscription", "create", "--tenant", tenant, "--url", "https://1.1.1.1/", option, value])
            .await;
        assert_eq!(ran.code, Some(1), "{tenant} {option} {value}: {ran:?}");
    }
}
