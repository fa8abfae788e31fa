//! The schema, and the statements that the programs run against it.

use serde_json::json;
use std::collections::HashSet;
use tests::TestDatabase;

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

/// Tables whose rows belong to no tenant, and why.
const OF_NO_TENANT: [(&str, &str); 12] = [
    ("console_spent_sign_ins", "somebody signs in before their tenant is known"),
    ("dispatcher_slots", "a slot has many tenants"),
    ("dispatchers", "programs"),
    ("erasure_key", "one key for the database"),
    ("key_revision", "counts the changes of all tenants"),
    ("master_key_canary", "one master key for the database"),
    ("queue_minutes", "queues hold messages of all tenants"),
    ("queue_states", "queues hold messages of all tenants"),
    ("replication_heartbeat", "one for the server"),
    ("schema_compatibility", "describes the schema"),
    ("schema_history", "describes the schema"),
    ("tenants", "the list of tenants, in which a slug must be unique"),
];

/// So that tables can be distributed by tenant: a server of one tenant cannot compare rows with those of another.
#[tokio::test]
async fn every_unique_index_and_foreign_key_of_a_tenants_table_contains_the_tenant() {
    let database = TestDatabase::new().await;
    let query = "
        WITH tables AS (
            SELECT t.oid, t.relname, a.attnum AS tenant
            FROM pg_class t LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'tenant_id' AND a.attnotnull
            WHERE t.relnamespace = 'public'::regnamespace AND t.relkind IN ('r', 'p') AND NOT t.relispartition)
        SELECT t.relname AS table, t.tenant IS NOT NULL AS has_tenant,
               ARRAY(SELECT i.indexrelid::regclass::text FROM pg_index i WHERE i.indrelid = t.oid AND i.indisunique
                     AND (t.tenant = ANY((i.indkey::int2[])[:i.indnkeyatts - 1])) IS NOT TRUE
                     UNION ALL
                     SELECT c.conname FROM pg_constraint c WHERE c.conrelid = t.oid AND c.contype IN ('f', 'p', 'u', 'x')
                     AND (t.tenant = ANY(c.conkey)) IS NOT TRUE) AS without
        FROM tables t ORDER BY 1";
    let mut others = Vec::new();
    for table in database.rows(query, &[]).await {
        if OF_NO_TENANT.iter().any(|(name, _)| table["table"] == *name) {
            others.push(table["table"].clone());
        } else {
            assert_eq!((&table["has_tenant"], &table["without"]), (&json!(true), &json!([])), "{table}");
        }
    }
    assert_eq!(others, OF_NO_TENANT.map(|(name, _)| name), "the list is exact");
}
