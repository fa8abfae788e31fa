//! What no event can do without, one after the other and by bare clients: a row whose commit does not wait for the disk (the
//! signature), a round trip over a quorum queue, and a row whose commit does.

use crate::round_trips::{BareQueue, Caller};
use tests::World;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

pub(crate) struct BareSteps {
    queue: BareQueue,
    caller: Caller,
    durable: Client,
    undurable: Client,
    /// One for each client.
    inserts: [Statement; 2],
}

impl BareSteps {
    pub(crate) async fn new(world: &World) -> Self {
        let (durable, undurable) = (world.database.connect().await, world.database.connect().await);
        let table = "CREATE TABLE IF NOT EXISTS bare_steps (id uuid PRIMARY KEY, body text)";
        durable.batch_execute(table).await.expect("a table");
        undurable.batch_execute("SET synchronous_commit = off").await.expect("a setting");
        let insert = "INSERT INTO bare_steps VALUES ($1, $2)";
        let inserts = [durable.prepare(insert).await, undurable.prepare(insert).await];
        let queue = BareQueue::open(world).await;
        let caller = queue.caller().await;
        Self { queue, caller, durable, undurable, inserts: inserts.map(|insert| insert.expect("a statement")) }
    }

    pub(crate) async fn event(&self, body: &str) {
        self.row("").await;
        self.caller.call().await;
        self.durable.execute(&self.inserts[0], &[&Uuid::now_v7(), &body]).await.expect("a commit");
    }

    /// A row whose commit does not wait for the disk.
    pub(crate) async fn row(&self, body: &str) {
        self.undurable.execute(&self.inserts[1], &[&Uuid::now_v7(), &body]).await.expect("a row");
    }

    pub(crate) async fn delete(self) {
        self.queue.delete().await;
    }
}
