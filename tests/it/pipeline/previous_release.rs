//! A worker of the previous release beside one of this release.
//!
//! The test plays its transaction: it locks the identities, then the client's row, writes back what it has read, and
//! does not check a version.

use super::email_lock;
use serde_json::json;
use tests::{Event, MAX_WAIT, World, event, eventually};
use tokio_postgres::Client;

const EMAIL: &str = "ana@example.com";

/// The transaction of the other worker, which has read the client.
struct PreviousRelease {
    session: Client,
    phone: Option<String>,
}

impl PreviousRelease {
    async fn begin(session: Client) -> Self {
        let begin = format!("BEGIN; SELECT pg_advisory_xact_lock({})", email_lock(EMAIL));
        session.batch_execute(&begin).await.expect("the lock");
        let read = "SELECT phone FROM clients WHERE email_key = 'ana@example.com' FOR NO KEY UPDATE";
        let phone = session.query_one(read, &[]).await.expect("the client").get(0);
        Self { session, phone }
    }

    async fn rename(self, name: &str) {
        let write = "UPDATE clients SET name = $1, phone = $2, updated_at = updated_at + interval '1 ms'
            WHERE email_key = 'ana@example.com'";
        self.session.execute(write, &[&name, &self.phone]).await.expect("the row is locked");
        self.session.batch_execute("COMMIT").await.expect("a commit");
    }
}

fn phone_sent() -> Event {
    event("contact.updated").email(EMAIL).phone("+1 555 7")
}

async fn assert_both_changes_kept(world: &World) {
    let found = world.database.rows("SELECT name, phone FROM clients", &[]).await;
    assert_eq!(found, [json!({"name": "Ana B", "phone": "+1 555 7"})]);
}

#[tokio::test]
async fn keeps_a_change_that_the_previous_release_has_begun() {
    let world = World::start().await;
    world.accept(event("contact.identified").email(EMAIL).name("Ana")).await;
    let other = PreviousRelease::begin(world.database.connect().await).await;
    let change = async {
        // This release has read the client, found its row locked, and runs again.
        world.database.until_session_of("worker", "wait_event = 'advisory'").await;
        other.rename("Ana B").await;
    };
    futures_util::join!(world.accept(phone_sent()), change);
    assert_both_changes_kept(&world).await;
}

#[tokio::test]
async fn keeps_a_change_that_the_previous_release_commits_after_this_one_read() {
    let world = World::start().await;
    world.accept(event("contact.identified").email(EMAIL).name("Ana")).await;
    // The unit waits here, after loading the client and before updating it.
    let gate = world.database.connect().await;
    gate_inserts(&world, &gate, "event_ledger").await;
    let change = async {
        world.database.until_session_of("worker", "wait_event = 'advisory'").await;
        PreviousRelease::begin(world.database.connect().await).await.rename("Ana B").await;
        gate.batch_execute("SELECT pg_advisory_unlock(42)").await.expect("it is held");
    };
    futures_util::join!(world.accept(phone_sent()), change);
    assert_both_changes_kept(&world).await;
}

#[tokio::test]
async fn the_previous_release_sees_changes_that_this_one_has_begun() {
    let world = World::start().await;
    world.accept(event("contact.identified").email(EMAIL).name("Ana")).await;
    // The unit waits here, after updating the client.
    let gate = world.database.connect().await;
    gate_inserts(&world, &gate, "timeline").await;
    let change = async {
        world.database.until_session_of("worker", "wait_event = 'advisory'").await;
        let other = tokio::spawn(PreviousRelease::begin(world.database.connect().await));
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND wait_event_type = 'Lock' AND query LIKE 'SELECT phone%'";
        eventually("the other release waits for the row", MAX_WAIT, async || {
            match world.database.count(waiting).await {
                0 => Err("it does not wait".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
        gate.batch_execute("SELECT pg_advisory_unlock(42)").await.expect("it is held");
        other.await.expect("the client is read").rename("Ana B").await;
    };
    futures_util::join!(world.accept(phone_sent()), change);
    assert_both_changes_kept(&world).await;
}

/// Makes inserts into a table wait for an advisory lock, which `gate` takes.
async fn gate_inserts(world: &World, gate: &Client, table: &str) {
    let trigger = format!(
        "CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NEW; END $$;
         CREATE TRIGGER gate BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION wait_at_gate()"
    );
    world.database.execute(&trigger).await;
    gate.batch_execute("SELECT pg_advisory_lock(42)").await.expect("nobody has it");
}
