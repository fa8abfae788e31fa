//! Checks of the schema, the roles, the secrets and retention.

use super::super::ports::OTHER_MASTER_KEY;
use super::{findings, of, until_fixed, until_found};
use tests::roles::ROLE_PREFIX;
use tests::{Connectctl, MASTER_KEY, TestDatabase, World, text};

#[tokio::test]
async fn a_schema_of_another_release_is_found() {
    let database = TestDatabase::empty().await;
    let ctl = Connectctl::for_database(database.url());
    let finding = until_found(&ctl, &[], "error", "schema.version", "V1__tenants_keys_and_audit").await;
    assert_eq!(finding["fix"], "Run connectctl migrate");
    ctl.json(&["migrate", "--roles", "--role-prefix", ROLE_PREFIX]).await;
    until_fixed(&ctl, &[], "schema.version", "").await;
    database.execute("INSERT INTO schema_history VALUES (9999, 'later', '1')").await;
    until_found(&ctl, &[], "error", "schema.version", "the schema is of a later release").await;
    database.execute("DELETE FROM schema_history WHERE version = 9999").await;
    until_fixed(&ctl, &[], "schema.version", "").await;
}

#[tokio::test]
async fn invalid_indexes_are_found() {
    let database = TestDatabase::new().await;
    let ctl = Connectctl::for_database(database.url());
    let invalid = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'notifications_at'::regclass";
    database.execute(invalid).await;
    let finding =
        until_found(&ctl, &[], "error", "schema.indexes", "the index notifications_at of notifications").await;
    assert_eq!(finding["fix"], "REINDEX INDEX CONCURRENTLY notifications_at");
    database.execute(text(&finding["fix"])).await;
    until_fixed(&ctl, &[], "schema.indexes", "").await;
    let left = "CREATE INDEX notifications_at_ccnew ON notifications (at);
                UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'notifications_at_ccnew'::regclass";
    database.execute(left).await;
    let finding = until_found(&ctl, &[], "error", "schema.indexes", "notifications_at_ccnew").await;
    database.execute(text(&finding["fix"]).rsplit_once(": ").expect("a statement").1).await;
    until_fixed(&ctl, &[], "schema.indexes", "").await;
}

#[tokio::test]
async fn privileges_that_are_missing_or_too_many_are_found() {
    let database = TestDatabase::new().await;
    let ctl = Connectctl::for_database(database.url());
    database
        .execute(
            "REVOKE SELECT ON clients FROM connect_test_ingest; REVOKE UPDATE ON deliveries FROM connect_test_dispatcher;
             REVOKE EXECUTE ON FUNCTION sealed_value_counts() FROM connect_test_worker; GRANT DELETE ON clients TO connect_test_worker",
        )
        .await;
    let found = findings(&ctl, &[]).await;
    for part in [
        "connect_test_ingest lacks SELECT on clients",
        "connect_test_dispatcher lacks UPDATE on deliveries",
        "connect_test_worker lacks EXECUTE on sealed_value_counts()",
        "connect_test_worker has DELETE on clients, which its program does not need",
    ] {
        assert!(of(&found, "roles", part).is_some(), "{part}: {found:?}");
    }
    ctl.json(&["migrate", "--roles", "--role-prefix", ROLE_PREFIX]).await;
    until_fixed(&ctl, &[], "roles", "").await;
    let without_roles = ctl.run(&["doctor", "--json", "--role-prefix", "nobody"]).await.json();
    let found = without_roles["findings"].as_array().expect("findings");
    assert!(of(found, "roles", "the roles nobody_ingest, nobody_worker").is_some(), "{found:?}");
    // A program whose user owns the schema.
    let url = format!("{}?options=-c%20application_name%3Dworker", database.url());
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("a session");
    tokio::spawn(connection);
    until_found(&ctl, &[], "warning", "roles", "a program works as connect, which owns the schema").await;
    drop(client);
    until_fixed(&ctl, &[], "roles", "").await;
}

#[tokio::test]
async fn master_keys_that_differ_are_found() {
    let world = World::with().ingests(0).workers(0).start().await;
    let of_keys = |current: &str, previous: &str| {
        world.connectctl.clone().and("CONNECT_MASTER_KEY", current).and("CONNECT_MASTER_KEY_PREVIOUS", previous)
    };
    let other = of_keys(OTHER_MASTER_KEY, "");
    until_found(&other, &[], "error", "master_key", "differs from the master key").await;
    until_found(&other, &[], "error", "master_key", "values are sealed under another master key").await;
    let rotating = of_keys(OTHER_MASTER_KEY, MASTER_KEY);
    let finding = until_found(&rotating, &[], "warning", "master_key", "still sealed under the previous").await;
    assert_eq!(finding["fix"], "Run connectctl secrets rotate");
    rotating.json(&["secrets", "rotate"]).await;
    until_fixed(&rotating, &[], "master_key", "").await;
    until_fixed(&other, &[], "master_key", "").await;
}

#[tokio::test]
async fn expired_rows_that_nobody_removes_are_found() {
    let database = TestDatabase::new().await;
    let ctl = Connectctl::for_database(database.url());
    let old = |age: &str| {
        format!(
            "INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, text)
             SELECT tenant_id, gen_random_uuid(), now() - interval '{age}', 'ada@acme.test', 'lead_assigned', 'x' FROM tenants"
        )
    };
    // Expired an hour ago: a worker that was restarted may not have removed it yet.
    database.execute(&old("90 days 1 hour")).await;
    assert!(of(&findings(&ctl, &[]).await, "retention", "").is_none());
    database.execute(&old("100 days")).await;
    until_found(&ctl, &[], "warning", "retention", "1 rows of notifications expired more than 6 hours ago").await;
    ctl.json(&["retention", "run"]).await;
    until_fixed(&ctl, &[], "retention", "").await;
}
