//! Exit codes and streams.

use tests::{Connectctl, World, event, words};

#[tokio::test]
async fn wrong_usage_exits_with_two() {
    let connectctl = Connectctl::with(Vec::new());
    for arguments in [
        "frobnicate",
        "tenant",
        "tenant create",
        "tenant create --slug x",
        "tenant list --unknown",
        "key create --tenant acme --name k",
        "pipeline --tenant acme --stage nowhere",
        "timeline --tenant acme",
    ] {
        let ran = connectctl.run(&words(arguments)).await;
        assert_eq!((ran.code, ran.output.as_str()), (Some(2), ""), "{arguments:?}: {ran:?}");
        assert_ne!(ran.errors, "", "{arguments:?}");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_reported_without_a_password() {
    for (setting, url, arguments, says) in [
        ("DATABASE_URL", "postgres://connect:hunter2@127.0.0.1:1/connect", "tenant list", "the database"),
        ("AMQP_URL", "amqp://guest:hunter2@127.0.0.1:1/%2f", "queue list", "the broker cannot be reached"),
    ] {
        let connectctl = Connectctl::with(Vec::new());
        let missing = connectctl.refusal(&words(arguments)).await;
        assert!(missing.contains(setting), "{missing}");
        let away = connectctl.and(setting, url).refusal(&words(arguments)).await;
        assert!(away.contains(says) && !away.contains("hunter2"), "{away}");
    }
}

#[tokio::test]
async fn prints_a_table_without_json() {
    let world = World::shared().await;
    world.accept(event("enquiry.submitted").email("ana@example.com").name("Ana")).await;
    for arguments in ["tenant list", "pipeline --tenant acme", "member list --tenant acme"] {
        let ran = world.connectctl.run(&words(arguments)).await;
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        assert!(ran.output.lines().count() >= 2, "{arguments:?}: {ran:?}");
        assert!(serde_json::from_str::<serde_json::Value>(&ran.output).is_err(), "{arguments:?}: {ran:?}");
    }
}
