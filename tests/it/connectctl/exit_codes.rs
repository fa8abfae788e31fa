//! Exit codes and streams.

use tests::{Connectctl, World, event};

#[tokio::test]
async fn a_refused_command_exits_with_one_and_explains_on_standard_error_only() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let nobody = "0190a5b2-0000-7000-8000-000000000001";
    let refused: &[&[&str]] = &[
        &["tenant", "set", "--tenant", "nobody", "--discovery", "true"],
        &["member", "list", "--tenant", "nobody"],
        &["member", "remove", "--tenant", "acme", "--email", "nobody@acme.test"],
        &["key", "revoke", "ck_nobody"],
        &["key", "scopes", "ck_nobody", "--set", "events:ingest"],
        &["timeline", "--tenant", "acme", "--client", nobody],
        &["timeline", "--tenant", "acme", "--client", "no id"],
        &["inbox", "--tenant", "acme", "--lead", nobody],
        &["invoice", "--tenant", "acme", "--lead", nobody],
        &["discovery", "--tenant", "acme", "--client", nobody],
        &["pipeline", "--tenant", "nobody"],
        &["notifications", "--tenant", "nobody"],
        &["usage", "--tenant", "nobody"],
        &["subscription", "pause", nobody],
    ];
    for arguments in refused {
        let ran = connectctl.run(&[*arguments, &["--json"]].concat()).await;
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
        assert_eq!((ran.output.as_str(), ran.errors.lines().count()), ("", 1), "{arguments:?}: {ran:?}");
    }
}

#[tokio::test]
async fn wrong_usage_exits_with_two() {
    let connectctl = Connectctl::with(Vec::new());
    let wrong: &[&[&str]] = &[
        &[],
        &["frobnicate"],
        &["tenant"],
        &["tenant", "create"],
        &["tenant", "create", "--slug", "x"],
        &["tenant", "list", "--unknown"],
        &["key", "create", "--tenant", "acme", "--name", "k"],
        &["pipeline", "--tenant", "acme", "--stage", "nowhere"],
        &["timeline", "--tenant", "acme"],
    ];
    for arguments in wrong {
        let ran = connectctl.run(arguments).await;
        assert_eq!((ran.code, ran.output.as_str()), (Some(2), ""), "{arguments:?}: {ran:?}");
        assert_ne!(ran.errors, "", "{arguments:?}");
    }
}

#[tokio::test]
async fn an_unreachable_database_is_reported_without_a_password() {
    let missing = Connectctl::with(Vec::new()).run(&["tenant", "list", "--json"]).await;
    assert_eq!((missing.code, missing.output.as_str()), (Some(1), ""));
    assert!(missing.errors.contains("DATABASE_URL"), "{missing:?}");
    let away = Connectctl::for_database("postgres://connect:hunter2@127.0.0.1:1/connect")
        .run(&["tenant", "list", "--json"])
        .await;
    assert_eq!((away.code, away.output.as_str()), (Some(1), ""));
    assert!(!away.errors.contains("hunter2"), "{away:?}");
}

#[tokio::test]
async fn prints_a_table_without_json() {
    let world = World::shared().await;
    world.accept(event("enquiry.submitted").email("ana@example.com").name("Ana")).await;
    let commands: &[&[&str]] =
        &[&["tenant", "list"], &["pipeline", "--tenant", "acme"], &["member", "list", "--tenant", "acme"]];
    for arguments in commands {
        let ran = world.connectctl.run(arguments).await;
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        assert!(ran.output.lines().count() >= 2, "{arguments:?}: {ran:?}");
        assert!(serde_json::from_str::<serde_json::Value>(&ran.output).is_err(), "{arguments:?}: {ran:?}");
    }
}
