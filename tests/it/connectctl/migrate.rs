//! `connectctl migrate`, and how migrations are applied: outside a transaction, after an interruption, and beside
//! sessions that use the tables. Those are migrations of the tests.

use common::db::{MigrateError, Migration, Migrations};
use serde_json::json;
use tests::{CommandOutput, Connectctl, TestDatabase};
use tokio_postgres::Transaction;

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
    connectctl.assert_refusal(&["migrate"], "the schema is of a later release: it has migration V9999").await;
}

const TABLE: Migration =
    Migration::new(1, "table", "CREATE TABLE things (n integer); INSERT INTO things SELECT generate_series(1, 1000);");
const INDEXES: Migration = Migration::new(
    2,
    "indexes",
    "-- outside a transaction
CREATE INDEX CONCURRENTLY things_first ON things (n);

-- A statement in several lines.
CREATE UNIQUE INDEX CONCURRENTLY things_second
    ON things (n);

ALTER TABLE things ADD COLUMN IF NOT EXISTS name text;
",
);
const COLUMN: Migration = Migration::new(3, "column", "ALTER TABLE things ADD COLUMN size integer");

/// Applies what is missing, and returns the names and what was said meanwhile.
async fn apply(
    database: &TestDatabase, known: &'static [Migration],
) -> Result<(Vec<String>, Vec<String>), MigrateError> {
    let mut client = database.connect().await;
    let mut migrations = Migrations::begin_with(&mut client, known).await?;
    let (mut applied, mut said) = (Vec::new(), Vec::new());
    while let Some(name) = migrations.next_name() {
        let nothing = async |_: &Transaction<'_>| Ok::<_, MigrateError>(());
        migrations.apply_next(&mut |text| said.push(text.to_owned()), nothing).await?;
        applied.push(name);
    }
    migrations.end().await?;
    Ok((applied, said))
}

async fn indexes(database: &TestDatabase) -> serde_json::Value {
    let query = "SELECT coalesce(json_object_agg(indexrelid::regclass, indisvalid), '{}') AS valid FROM pg_index
                 WHERE indrelid = 'things'::regclass";
    database.rows(query, &[]).await[0]["valid"].clone()
}

#[tokio::test]
async fn a_migration_that_was_killed_while_it_built_an_index_is_continued_and_blocks_no_write() {
    let database = TestDatabase::empty().await;
    apply(&database, &[TABLE]).await.expect("a table");
    // Building an index waits for a transaction that writes.
    let writer = database.begin("LOCK TABLE things IN ROW EXCLUSIVE MODE").await;
    let interrupted = async {
        let builds = "wait_event = 'virtualxid' AND query LIKE '%things_first%'";
        database.until_sessions(builds, 1).await;
        // It changes no row, and needs the lock that a write needs.
        database.execute("SET lock_timeout = '1s'; DELETE FROM things WHERE false").await;
        let kill = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {builds}");
        database.execute(&kill).await;
    };
    let (ran, ()) = futures_util::join!(apply(&database, &[TABLE, INDEXES]), interrupted);
    assert!(ran.is_err(), "{ran:?}");
    writer.batch_execute("COMMIT").await.expect("a transaction");
    assert_eq!(indexes(&database).await, json!({"things_first": false}), "as the interrupted run leaves it");

    let (applied, _) = apply(&database, &[TABLE, INDEXES]).await.expect("the index is built again");
    assert_eq!(applied, ["V2__indexes"]);
    assert_eq!(indexes(&database).await, json!({"things_first": true, "things_second": true}));
}

#[tokio::test]
async fn statements_that_were_executed_before_a_failure_are_not_executed_again() {
    let database = TestDatabase::empty().await;
    apply(&database, &[TABLE]).await.expect("a table");
    database.execute("INSERT INTO things VALUES (1)").await;
    let error = apply(&database, &[TABLE, INDEXES]).await.expect_err("a number is there twice");
    assert_eq!(error.to_string(), "migration V2__indexes failed");
    assert_eq!(indexes(&database).await, json!({"things_first": true, "things_second": false}));
    let first = "SELECT 'things_first'::regclass::oid::bigint";
    let built = database.count(first).await;

    database.execute("DELETE FROM things WHERE n = 1").await;
    let (applied, said) = apply(&database, &[TABLE, INDEXES]).await.expect("no number is there twice");
    assert_eq!(applied, ["V2__indexes"]);
    assert_eq!(said, ["statement 2 of 3", "statement 3 of 3"]);
    assert_eq!(database.count(first).await, built, "it was not built again");
    assert_eq!(indexes(&database).await, json!({"things_first": true, "things_second": true}));
    let progress = "SELECT count(*) FROM pg_class WHERE relname = 'schema_migration_progress'";
    assert_eq!(database.count(progress).await, 0);
    assert!(apply(&database, &[TABLE, INDEXES]).await.expect("nothing to do").0.is_empty());
}

#[tokio::test]
async fn a_migration_that_waits_for_a_table_lets_queries_go_on() {
    let database = TestDatabase::empty().await;
    apply(&database, &[TABLE]).await.expect("a table");
    // As a dump does.
    let dump = database.begin("LOCK TABLE things IN ACCESS SHARE MODE").await;
    let driving = async {
        database.until_sessions("wait_event_type = 'Lock' AND query LIKE 'ALTER TABLE things%'", 1).await;
        // It waits behind the migration, which gives way before the dump has ended.
        database.execute("SET statement_timeout = '60s'; SELECT FROM things").await;
        dump.batch_execute("COMMIT").await.expect("a transaction");
    };
    let (ran, ()) = futures_util::join!(apply(&database, &[TABLE, COLUMN]), driving);
    let (applied, said) = ran.expect("it is applied once the dump has ended");
    assert_eq!(applied, ["V3__column"]);
    assert!(said.iter().any(|text| text.contains("holds a table that it changes; trying again")), "{said:?}");
}
