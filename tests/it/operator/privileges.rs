//! Ingest with a role of its own, which has the rights that the README lists and no others.

use super::readiness::until_lacking;
use tests::event::batch;
use tests::{Program, TestDatabase, World, event};

/// A role that is there for one test, with no right but to connect.
struct Role {
    name: String,
}

impl Role {
    async fn new(database: &TestDatabase) -> Self {
        let name = format!("ingest_{}", uuid::Uuid::now_v7().simple());
        database.execute(&format!("CREATE ROLE {name} LOGIN")).await;
        Self { name }
    }

    async fn remove(self, database: &TestDatabase) {
        database.execute(&format!("DROP OWNED BY {0}; DROP ROLE {0}", self.name)).await;
    }

    /// `url` as this role.
    fn url(&self, url: &str) -> String {
        let (_, place) = url.split_once('@').expect("a URL with a user");
        format!("postgres://{}@{place}", self.name)
    }
}

/// What the README lists for ingest, for this role.
fn grants(role: &Role) -> String {
    let readme = include_str!("../../../README.md");
    let (_, section) = readme.split_once("### Least privilege").expect("the section");
    let sql = section.split("```").nth(1).expect("the statements").trim_start_matches("sql");
    let grants = sql.replace("TO ingest;", &format!("TO {};", role.name));
    assert!(grants.contains("GRANT") && grants.contains(&role.name), "{grants}");
    grants
}

#[tokio::test]
async fn ingest_needs_no_right_to_change_the_schema_to_make_a_partition() {
    let mut world = World::with().ingests(0).start().await;
    let role = Role::new(&world.database).await;
    world.database.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC").await;
    world.database.execute(&grants(&role)).await;
    world.set("DATABASE_URL", &role.url(world.database.url()));
    world.add_ingest().await;
    world.accept(event("contact.identified").email("ana@example.com")).await;
    let key = world.add_key("clients:read,leads:read,events:ingest").await;
    for path in ["/clients?email=ana@example.com", "/leads?externalId=1"] {
        let read = key.records("GET", &format!("{}{path}", tests::RECORDS), "");
        assert_eq!(world.http().send(&read).await.status, 200, "{path}");
    }

    // As after a pause: nothing that was made ahead is there.
    let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'replay_entries'::regclass";
    let drop_all = "DO $$ DECLARE name regclass; BEGIN
        FOR name IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'replay_entries'::regclass
        LOOP EXECUTE format('DROP TABLE %s', name); END LOOP; END $$";
    world.database.execute(drop_all).await;
    assert_eq!(world.database.count(partitions).await, 0);
    let answer =
        world.http().send(&key.events(batch(&[event("contact.identified").email("bo@example.com")]))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(world.database.count(partitions).await >= 2);
    let own = format!("SELECT count(*) FROM pg_class WHERE relowner = '{}'::regrole", role.name);
    assert_eq!(world.database.count(&own).await, 0, "what is made belongs to the schema's owner");

    world.ingests.clear();
    role.remove(&world.database).await;
}

#[tokio::test]
async fn the_function_makes_and_drops_nothing_but_partitions_of_their_time() {
    let database = TestDatabase::new().await;
    let client = database.connect().await;
    for refused in [
        "SELECT make_replay_partition(NULL)",
        "SELECT make_replay_partition(7)",
        "SELECT make_replay_partition(600)",
        "SELECT make_replay_partition((floor(extract(epoch FROM now()) / 600) * 600)::bigint + 600000)",
        "SELECT drop_replay_partition((floor(extract(epoch FROM now()) / 600) * 600)::bigint)",
        "SELECT drop_replay_partition(600)",
    ] {
        assert!(client.execute(refused, &[]).await.is_err(), "{refused}");
    }
}

/// Checks that ingest, which has been ready, is not ready any more without a right of its role.
async fn assert_unready_without(right: &str) {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let role = Role::new(&world.database).await;
    world.database.execute(&grants(&role)).await;
    world.set("DATABASE_URL", &role.url(world.database.url()));
    let ingest = Program::ingest(world.settings()).await;
    world.database.execute(&format!("REVOKE {right} FROM {}", role.name)).await;
    until_lacking(&ingest, &["replay_store"]).await;
    drop(ingest);
    role.remove(&world.database).await;
}

#[tokio::test]
async fn an_ingest_that_may_not_write_signatures_is_not_ready() {
    assert_unready_without("INSERT ON replay_entries").await;
}

#[tokio::test]
async fn an_ingest_that_may_not_make_partitions_for_signatures_is_not_ready() {
    assert_unready_without("EXECUTE ON FUNCTION make_replay_partition(bigint)").await;
}
