//! The schema, and the statements that the programs run against it.

use std::collections::HashSet;
use tests::{TestDatabase, text};

/// All statements of all programs.
fn statements() -> impl Iterator<Item = &'static str> {
    let programs = [
        ingest::store::STATEMENTS,
        worker::store::STATEMENTS,
        dispatcher::store::STATEMENTS,
        admin::store::STATEMENTS,
        &[common::activity::STATEMENTS, common::db::MASTER_KEY_STATEMENTS, common::db::SCHEMA_STATEMENTS],
        admin::doctor::STATEMENTS,
    ];
    programs
        .concat()
        .into_iter()
        .chain(common::retention::STATEMENTS.iter().copied())
        .flatten()
        .map(|statement| statement.as_str())
}

/// The name that a statement gives itself in its first line, `-- leads.load`.
fn name(statement: &str) -> Option<&str> {
    statement.trim_start().lines().next()?.strip_prefix("-- ")
}

#[tokio::test]
async fn every_statement_can_be_prepared_against_the_schema() {
    let database = TestDatabase::new().await;
    let client = database.connect().await;
    for statement in statements() {
        let prepared = client.prepare(statement).await;
        assert!(prepared.is_ok(), "{:?}: {:?}", name(statement), prepared.err());
    }
}

#[test]
fn every_statement_has_a_unique_name() {
    let mut names = HashSet::new();
    for statement in statements() {
        let name = name(statement).unwrap_or_else(|| panic!("no name: {statement}"));
        assert!(names.insert(name), "{name} twice");
    }
}

#[tokio::test]
async fn every_table_of_tenant_data_is_keyed_by_tenant_first() {
    let database = TestDatabase::new().await;
    let query = "SELECT t.relname AS name, a.attname AS first_key
         FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace
         LEFT JOIN pg_index i ON i.indrelid = t.oid AND i.indisprimary
         LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]
         WHERE n.nspname = 'public' AND t.relkind IN ('r', 'p') AND NOT t.relispartition";
    // These hold no tenant data; a session may be an operator's, of no tenant.
    let others = [
        "console_login_links",
        "console_sessions",
        "console_spent_sign_ins",
        "erasure_key",
        "key_revision",
        "master_key_canary",
        "queue_minutes",
        "queue_states",
        "refinery_schema_history",
        "replication_heartbeat",
        "schema_compatibility",
    ];
    for table in database.rows(query, &[]).await {
        if !others.contains(&text(&table["name"])) {
            assert_eq!(table["first_key"], "tenant_id", "{table}");
        }
    }
}

#[tokio::test]
async fn every_table_has_a_comment() {
    let database = TestDatabase::new().await;
    let query = "SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
         AND c.relname <> 'refinery_schema_history' AND obj_description(c.oid, 'pg_class') IS NULL";
    assert_eq!(database.rows(query, &[]).await, Vec::<serde_json::Value>::new());
}
