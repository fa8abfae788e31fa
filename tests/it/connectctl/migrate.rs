//! `connectctl migrate`.

use serde_json::json;
use tests::{CommandOutput, Connectctl, TestDatabase, text};

#[tokio::test]
async fn a_second_run_applies_nothing() {
    let database = TestDatabase::empty().await;
    let connectctl = Connectctl::for_database(database.url());
    let first = connectctl.json(&["migrate"]).await;
    let applied = first["applied"].as_array().expect("names");
    assert!(!applied.is_empty() && applied.iter().all(serde_json::Value::is_string), "{first}");
    assert_eq!(connectctl.json(&["migrate"]).await, json!({"applied": []}));
}

#[tokio::test]
async fn concurrent_runs_apply_each_migration_once() {
    let database = TestDatabase::empty().await;
    let connectctl = Connectctl::for_database(database.url());
    let runs = futures_util::future::join_all((0..4).map(|_| connectctl.json(&["migrate"]))).await;
    let applied = runs.iter().filter(|run| **run != json!({"applied": []})).count();
    assert_eq!(applied, 1, "{runs:?}");
    connectctl.json(&["tenant", "create", "--slug", "acme", "--name", "Acme"]).await;
}

#[tokio::test]
async fn a_run_on_a_live_deployment_disturbs_nothing() {
    let world = tests::World::start().await;
    let ana = || tests::event("contact.identified").email("ana@example.com");
    let (_, migrated) = futures_util::join!(world.accept(ana()), world.connectctl.json(&["migrate"]));
    assert_eq!(migrated, json!({"applied": []}));
    world.accept(ana()).await;
}

#[tokio::test]
async fn shows_a_progress_bar_on_a_terminal_and_plain_lines_elsewhere() {
    let migrate = async |command: &str| {
        let database = TestDatabase::empty().await;
        CommandOutput::bash(command, &[("DATABASE_URL".to_owned(), database.url().to_owned())]).await
    };
    let seen = migrate("TERM=xterm script --quiet --return --command 'connectctl migrate' /dev/null").await;
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert!(seen.output.contains("migrations applied: [") && seen.output.contains("(V1__"), "{seen:?}");
    let told = migrate("connectctl migrate").await;
    let lines: Vec<&str> = told.errors.lines().collect();
    assert!(lines[1].starts_with("1 of ") && lines[1].contains(": V1__"), "{told:?}");
    assert!(lines.iter().any(|line| line.starts_with("migrations applied: ")), "{told:?}");
    assert!(!told.errors.contains('['), "{told:?}");
}

#[tokio::test]
async fn refuses_a_schema_of_a_later_release_and_a_changed_migration() {
    let database = TestDatabase::empty().await;
    let connectctl = Connectctl::for_database(database.url());
    connectctl.json(&["migrate"]).await;
    database.execute("INSERT INTO refinery_schema_history VALUES (9999, 'later', 'now', '1')").await;
    let refused = connectctl.run(&["migrate"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.errors.contains("the schema is of a later release: it has migration V9999"),
        "{refused:?}"
    );
    database.execute("DELETE FROM refinery_schema_history WHERE version = 9999").await;
    database.execute("UPDATE refinery_schema_history SET checksum = '1' WHERE version = 2").await;
    let refused = connectctl.run(&["migrate"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.errors.contains("migration V2__"), "{refused:?}");
    assert!(refused.errors.contains("was changed after it had been applied"), "{refused:?}");
}

/// Undoes the migrations from V27 on, of which V28 changes only `subscriptions`.
const UNDO_SINCE_V27: &str = "
    DROP TRIGGER clients_record_former_identities ON clients;
    DROP FUNCTION record_former_identities();
    DROP TABLE former_identities;
    ALTER TABLE erasures DROP COLUMN identity_hashes;
    DROP TABLE replication_heartbeat;
    ALTER TABLE subscriptions DROP COLUMN event_types_changed_at;
    ALTER TABLE activity_minutes DROP COLUMN timed_out;
    DELETE FROM refinery_schema_history WHERE version >= 27";

#[tokio::test]
async fn a_migration_that_waits_for_a_table_lets_queries_go_on_and_what_came_before_is_recorded() {
    let database = TestDatabase::new().await;
    database.execute(UNDO_SINCE_V27).await;
    let connectctl = Connectctl::for_database(database.url());
    // As a dump does.
    let dump = database.connect().await;
    dump.batch_execute("BEGIN; LOCK TABLE subscriptions IN ACCESS SHARE MODE").await.expect("a lock");
    let driving = async {
        let waits = "wait_event_type = 'Lock' AND query LIKE '%ALTER TABLE subscriptions%'";
        database.until_session_of("connectctl", waits).await;
        // It waits behind the migration, which gives way before the dump has ended.
        database.execute("SET statement_timeout = '60s'; SELECT FROM subscriptions").await;
        let newest = connectctl.list(&["audit"]).await.pop().expect("a record");
        assert!(text(&newest["target"]).starts_with("V27__"), "{newest}");
        dump.batch_execute("COMMIT").await.expect("a transaction");
    };
    let (ran, ()) = futures_util::join!(connectctl.run(&["migrate"]), driving);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.errors.contains("holds a table that it changes; trying again"), "{ran:?}");
    let newest = connectctl.list(&["audit"]).await.pop().expect("a record");
    assert!(text(&newest["target"]).starts_with("V30__"), "{newest}");
}
