//! `connectctl migrate`.

use serde_json::json;
use tests::{CommandOutput, Connectctl, TestDatabase};

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
async fn refuses_a_schema_of_a_later_release() {
    let database = TestDatabase::new().await;
    let connectctl = Connectctl::for_database(database.url());
    database.execute("INSERT INTO schema_history VALUES (9999, 'later', '1')").await;
    let refusal = connectctl.refusal(&["migrate"]).await;
    assert!(refusal.contains("the schema is of a later release: it has migration V9999"), "{refusal}");
}
