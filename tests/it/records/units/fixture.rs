//! A worker whose unit of writes is known: the writes wait behind one that is blocked in the database.

use crate::records::{client_route, new_client, patch_request, post_request, record, spawn};
use serde_json::{Value, json};
use tests::event::batch;
use tests::{HttpRequest, HttpResponse, QueuedMessage, World, event, text};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

/// A worker with one lane for writes.
pub(super) struct Fixture {
    pub(super) world: World,
    /// A client whose row the first write of each unit waits for.
    pub(super) locked_client: Value,
}

/// Writes that wait behind one that is blocked in the database.
pub(super) struct QueuedWrites {
    pub(super) responses: Vec<JoinHandle<HttpResponse>>,
    pub(super) messages: Vec<QueuedMessage>,
    pub(super) first: JoinHandle<HttpResponse>,
    pub(super) lock: Client,
}

impl Fixture {
    pub(super) async fn start() -> Self {
        let world = World::with().set("CONNECT_WORKER_LANES", "1").set("CONNECT_REPLY_TIMEOUT", "50s").start().await;
        let locked_client = new_client(&world, json!({"email": "held@example.com"})).await;
        Self { world, locked_client }
    }

    /// Delivers `requests` in this order to the worker while it is blocked.
    pub(super) async fn queue_behind_lock(&mut self, requests: Vec<HttpRequest>) -> QueuedWrites {
        self.queue_behind_lock_with(requests, |_, message| message).await
    }

    /// The same, with each message changed by `change`, which gets its position.
    pub(super) async fn queue_behind_lock_with(
        &mut self, requests: Vec<HttpRequest>, change: impl Fn(usize, QueuedMessage) -> QueuedMessage,
    ) -> QueuedWrites {
        self.world.end_workers().await;
        let mut responses = Vec::new();
        for request in requests {
            responses.push(spawn(&self.world, request));
            self.world.until_depth("records", responses.len() as u32).await;
        }
        let messages = self.world.queues.take_all("records").await;
        self.world.add_worker().await;
        let lock = self.lock(&self.locked_client).await;
        let first = patch_request(&self.world.key, &client_route(&self.locked_client), &json!({"name": "Held"}));
        let first = spawn(&self.world, first);
        self.world.database.until_lock_wait().await;
        let changed: Vec<_> = messages.iter().cloned().enumerate().map(|(at, one)| change(at, one)).collect();
        self.world.queues.publish_all("records", &changed).await;
        self.until_taken().await;
        QueuedWrites { responses, messages, first, lock }
    }

    /// The worker has every message of the queue when it has applied what its connection brings after them.
    pub(super) async fn until_taken(&self) {
        self.world.until_depth("records", 0).await;
        let later = self
            .world
            .key
            .events(batch(&[event("contact.identified").email("x@example.com")]))
            .with("connect-dry-run", "true");
        self.world.http().send(&later).await.assert_status(200);
    }

    /// Sends `requests` so that they form one unit of work.
    pub(super) async fn send_as_one_unit(&mut self, requests: Vec<HttpRequest>) -> Vec<HttpResponse> {
        self.queue_behind_lock(requests).await.release().await
    }

    /// A session that keeps a client's row locked until it commits.
    pub(super) async fn lock(&self, client: &Value) -> Client {
        self.world.database.begin(&lock_statement(client)).await
    }

    pub(super) fn post(&self, key: &str, body: &Value) -> HttpRequest {
        post_request(&self.world.key, "/clients", key, body)
    }

    pub(super) fn post_email(&self, email: &str) -> HttpRequest {
        self.post_email_with(email, email)
    }

    pub(super) fn post_email_with(&self, key: &str, email: &str) -> HttpRequest {
        self.post(key, &json!({"email": email}))
    }
}

impl QueuedWrites {
    /// Unblocks the worker.
    pub(super) async fn release(self) -> Vec<HttpResponse> {
        self.lock.batch_execute("COMMIT").await.expect("a commit");
        record(&self.first.await.expect("a response"), 200);
        responses(self.responses).await
    }
}

pub(super) fn lock_statement(client: &Value) -> String {
    format!("SELECT 1 FROM clients WHERE client_id = '{}' FOR UPDATE", text(&client["id"]))
}

pub(super) async fn responses(tasks: Vec<JoinHandle<HttpResponse>>) -> Vec<HttpResponse> {
    let mut responses = Vec::new();
    for task in tasks {
        responses.push(task.await.expect("a response"));
    }
    responses
}
