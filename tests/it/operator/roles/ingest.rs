//! Ingest under its role.

use tests::event::batch;
use tests::{TestDatabase, World, event};
use tokio_postgres::error::SqlState;

#[tokio::test]
async fn ingest_creates_partitions_without_schema_privileges() {
    let world = World::start().await;
    world.accept(event("contact.identified").email("ana@example.com")).await;
    let key = world.add_key("clients:read,leads:read,events:ingest").await;
    for path in ["/clients?email=ana@example.com", "/leads?externalId=1"] {
        let read = key.records("GET", &format!("{}{path}", tests::RECORDS), "");
        assert_eq!(world.http().send(&read).await.status, 200, "{path}");
    }

    // As after a pause: no partition was created in advance.
    let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'replay_entries'::regclass";
    let drop_all = "DO $$ DECLARE name regclass; BEGIN
        FOR name IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'replay_entries'::regclass
        LOOP EXECUTE format('DROP TABLE %s', name); END LOOP; END $$";
    world.database.execute(drop_all).await;
    assert_eq!(world.database.count(partitions).await, 0);
    let response =
        world.http().send(&key.events(batch(&[event("contact.identified").email("bo@example.com")]))).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert!(world.database.count(partitions).await >= 2);
    let of_programs = "SELECT count(*) FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE r.rolname LIKE 'connect_test_%'";
    assert_eq!(world.database.count(of_programs).await, 0, "what is made belongs to the schema's owner");
    let sessions = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND usename = 'connect_test_ingest_user'";
    assert!(world.database.count(sessions).await > 0, "the tests run under the programs' roles");
}

#[tokio::test]
async fn the_partition_functions_reject_other_times() {
    let database = TestDatabase::new().await;
    let client = database.connect().await;
    for refused in [
        "SELECT make_replay_partition(NULL)",
        "SELECT make_replay_partition(7)",
        "SELECT make_replay_partition(600)",
        "SELECT make_replay_partition((floor(extract(epoch FROM now()) / 600) * 600)::bigint + 600000)",
        "SELECT drop_replay_partition((floor(extract(epoch FROM now()) / 600) * 600)::bigint)",
    ] {
        let error = client.execute(refused, &[]).await.expect_err(refused);
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{refused}: {error:?}");
    }
    let missing = client.execute("SELECT drop_replay_partition(600)", &[]).await.expect_err("no partition");
    assert_eq!(missing.code(), Some(&SqlState::UNDEFINED_TABLE), "{missing:?}");
}
