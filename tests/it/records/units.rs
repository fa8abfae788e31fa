//! Writes that wait together are done in one transaction: each has the answer that it would have had alone.

mod accounts;

use super::{client_route, data, new_client, new_lead, patch_of, post_of, record, trip_route, used};
use serde_json::{Value, json};
use tests::{
    Answer, Flight, Http, Outgoing, PATIENCE, QueuedMessage, StatementRecorder, World, WorldBuilder,
    eventually, text,
};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

/// A worker with one lane for writes.
struct Fixture {
    world: World,
    /// A client whose row the first write of each unit waits for.
    held: Value,
}

/// Writes that wait in the queue, behind one that waits for the database.
struct Waiting {
    answers: Vec<JoinHandle<Answer>>,
    messages: Vec<QueuedMessage>,
    first: JoinHandle<Answer>,
    lock: Client,
}

fn spawn(world: &World, request: Outgoing) -> JoinHandle<Answer> {
    let http = Http::new(world.http().address());
    tokio::spawn(async move { http.send(&request).await })
}

impl Fixture {
    async fn start() -> Self {
        Self::of(World::with()).await
    }

    async fn of(world: WorldBuilder) -> Self {
        let world = world.set("CONNECT_RECORD_LANES", "1").set("CONNECT_REPLY_TIMEOUT", "50s").start().await;
        let held = new_client(&world, json!({"email": "held@example.com"})).await;
        Self { world, held }
    }

    /// A recorder between the database and the workers from now on.
    fn record(&mut self) -> StatementRecorder {
        let recorder = StatementRecorder::before(self.world.database.url());
        self.world.set("DATABASE_URL", recorder.url());
        recorder
    }

    /// Has `requests` wait in this order, and be handed to the worker while it can't begin with them.
    async fn hand_over(&mut self, requests: Vec<Outgoing>) -> Waiting {
        self.hand_over_as(requests, |_, message| message).await
    }

    /// The same, with each message changed by `change`, which is given its place.
    async fn hand_over_as(
        &mut self,
        requests: Vec<Outgoing>,
        change: impl Fn(usize, QueuedMessage) -> QueuedMessage,
    ) -> Waiting {
        self.world.end_workers().await;
        let mut answers = Vec::new();
        for request in requests {
            answers.push(spawn(&self.world, request));
            self.world.until_depth("records", answers.len() as u32).await;
        }
        let messages = self.world.queues.take_all("records").await;
        self.world.add_worker().await;
        let lock = self.lock(&self.held).await;
        let first = patch_of(&self.world.key, &client_route(&self.held), &json!({"name": "Held"}));
        let first = spawn(&self.world, first);
        self.until_worker_waits().await;
        let changed: Vec<_> = messages.iter().cloned().enumerate().map(|(at, one)| change(at, one)).collect();
        self.world.queues.put_all("records", &changed).await;
        self.world.until_depth("records", 0).await;
        Waiting { answers, messages, first, lock }
    }

    /// Sends `requests` so that they are one unit.
    async fn together(&mut self, requests: Vec<Outgoing>) -> Vec<Answer> {
        self.hand_over(requests).await.release().await
    }

    /// A session that keeps a client's row locked until it commits.
    async fn lock(&self, client: &Value) -> Client {
        let session = self.world.database.connect().await;
        let hold = format!("BEGIN; {}", lock_of(client));
        session.batch_execute(&hold).await.expect("nobody has it");
        session
    }

    async fn until_worker_waits(&self) {
        let waits = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("the worker waits", PATIENCE, async || match self.world.database.count(waits).await {
            0 => Err("nobody waits".to_owned()),
            _ => Ok(()),
        })
        .await;
    }

    fn post(&self, key: &str, body: &Value) -> Outgoing {
        post_of(&self.world.key, "/clients", key, body)
    }

    fn post_email(&self, email: &str) -> Outgoing {
        self.post_email_with(email, email)
    }

    fn post_email_with(&self, key: &str, email: &str) -> Outgoing {
        self.post(key, &json!({"email": email}))
    }
}

impl Waiting {
    /// Lets the worker go on.
    async fn release(self) -> Vec<Answer> {
        self.lock.batch_execute("COMMIT").await.expect("a commit");
        record(&self.first.await.expect("an answer"), 200);
        answers(self.answers).await
    }
}

fn lock_of(client: &Value) -> String {
    format!("SELECT 1 FROM clients WHERE client_id = '{}' FOR UPDATE", text(&client["id"]))
}

async fn answers(tasks: Vec<JoinHandle<Answer>>) -> Vec<Answer> {
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("an answer"));
    }
    answers
}

async fn count_used(world: &World) -> u64 {
    used(world).await.as_u64().expect("a count")
}

fn statuses(answers: &[Answer]) -> Vec<u16> {
    answers.iter().map(|answer| answer.status).collect()
}

/// The statements of a flight, but for those that are prepared in it.
fn executed(flight: &Flight) -> Vec<&str> {
    let statements = flight.statements.iter().map(String::as_str);
    statements.filter(|statement| !statement.starts_with("PREPARE")).collect()
}

#[tokio::test]
async fn writes_that_wait_together_share_one_transaction_and_a_refused_one_costs_the_others_nothing() {
    let mut fixture = Fixture::start().await;
    let lead = new_lead(&fixture.world, json!({})).await;
    let key = &fixture.world.key;
    let before = count_used(&fixture.world).await;
    let nowhere = "/leads/01900000-0000-7000-8000-000000000000";
    let requests = vec![
        fixture.post_email("bo@example.com"),
        fixture.post("again", &json!({"email": "bo@example.com"})),
        patch_of(key, nowhere, &json!({"title": "x"})),
        post_of(key, "/leads", "lead", &json!({"contact": {"email": "bo@example.com"}})),
        patch_of(key, &trip_route(&lead), &json!({"message": "Hello"})),
        patch_of(key, &client_route(&fixture.held), &json!({"company": "Acme"})),
    ];
    let recorder = fixture.record();
    let waiting = fixture.hand_over(requests).await;
    recorder.take("records");
    let answers = waiting.release().await;
    assert_eq!(statuses(&answers), [201, 409, 404, 201, 200, 200]);
    let bo = record(&answers[0], 201);
    assert_eq!(answers[1].json()["clientId"], bo["id"]);
    assert_eq!(record(&answers[3], 201)["clientId"], bo["id"]);
    assert_eq!(record(&answers[5], 200)["name"], "Held");
    let mut flights = recorder.take("records");
    flights.retain(|flight| !executed(flight).is_empty());
    let [.., loads, writes] = flights.as_slice() else { panic!("{flights:#?}") };
    let named = ["clients.lock", "tenants.load", "members.load", "ledger.load", "clients.load"];
    let of_named = ["clients.load_named", "company.load", "leads.load", "rosters.load"];
    let loaded = [&["BEGIN", "idempotency.lock", "idempotency.find"][..], &named, &of_named].concat();
    assert_eq!(executed(loads), loaded);
    let records = ["clients.update", "clients.insert", "leads.insert", "trips.insert", "trips.update"];
    let streams = ["proposals.insert", "timeline.insert", "inbox.insert", "notifications.insert"];
    let closing = ["idempotency.insert", "usage.count", "COMMIT"];
    assert_eq!(executed(writes), [&["ledger.insert"][..], &records, &streams, &closing].concat());
    assert_eq!(count_used(&fixture.world).await, before + 5);
}

#[tokio::test]
async fn a_retry_beside_its_request_is_answered_as_a_replay() {
    let mut fixture = Fixture::start().await;
    let (body, other) = (json!({"email": "bo@example.com"}), json!({"email": "cy@example.com"}));
    let requests = vec![fixture.post("k-1", &body), fixture.post("k-1", &body), fixture.post("k-1", &other)];
    let answers = fixture.together(requests).await;
    assert_eq!(statuses(&answers), [201, 201, 422]);
    assert_eq!((answers[0].header("idempotent-replayed"), &answers[0].body), ("", &answers[1].body));
    assert_eq!(answers[1].header("idempotent-replayed"), "true");
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM clients").await, 2);
}

#[tokio::test]
async fn of_two_changes_of_one_version_one_succeeds_and_each_change_is_a_version() {
    let mut fixture = Fixture::start().await;
    let bo = new_client(&fixture.world, json!({"email": "bo@example.com"})).await;
    let key = &fixture.world.key;
    let change = |name: &str| patch_of(key, &client_route(&bo), &json!({"name": name}));
    let etag = format!("\"{}\"", text(&bo["updatedAt"]));
    let requests = vec![
        change("One").with("if-match", &etag),
        change("Two").with("if-match", &etag),
        change("Three"),
        change("Four"),
    ];
    let answers = fixture.together(requests).await;
    assert_eq!(statuses(&answers), [200, 412, 200, 200]);
    let names: Vec<Value> = [0, 2, 3].map(|i: usize| data(&answers[i], 200)["name"].clone()).into();
    assert_eq!(names, ["One", "Three", "Four"]);
    let versions = [0, 2, 3].map(|i: usize| answers[i].header("etag").to_owned());
    assert!(versions.is_sorted() && versions[0] != versions[1] && versions[1] != versions[2], "{versions:?}");
}

#[tokio::test]
async fn a_quota_for_some_of_the_writes_is_used_up_exactly() {
    let mut fixture = Fixture::start().await;
    let quota = (count_used(&fixture.world).await + 3).to_string();
    let set = ["tenant", "set", "--tenant", "acme", "--monthly-quota", &quota];
    fixture.world.connectctl.json(&set).await;
    let requests: Vec<Outgoing> = (0..5).map(|i| fixture.post_email(&format!("{i}@example.com"))).collect();
    let answers = fixture.together(requests).await;
    // One is used by the write that they waited behind.
    assert_eq!(statuses(&answers), [201, 201, 429, 429, 429]);
    assert_eq!(count_used(&fixture.world).await.to_string(), quota);
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM clients").await, 3);
}

#[tokio::test]
async fn a_write_that_the_database_refuses_fails_alone() {
    let mut fixture = Fixture::start().await;
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN IF NEW.name = 'Bad' THEN RAISE 'refused'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON clients FOR EACH ROW EXECUTE FUNCTION refuse()";
    fixture.world.database.execute(refuse).await;
    let bad = fixture.post("bad", &json!({"email": "bad@example.com", "name": "Bad"}));
    let requests = vec![fixture.post_email("bo@example.com"), bad, fixture.post_email("cy@example.com")];
    let answers = fixture.together(requests).await;
    assert_eq!(statuses(&answers), [201, 500, 201]);
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM clients").await, 3);
    assert_eq!(count_used(&fixture.world).await, 4);
}

#[tokio::test]
async fn redelivered_writes_are_answered_as_before_and_done_once() {
    let mut fixture = Fixture::start().await;
    let change = patch_of(&fixture.world.key, &client_route(&fixture.held), &json!({"company": "Acme"}));
    let requests = vec![fixture.post_email("bo@example.com"), change];
    let waiting = fixture.hand_over(requests).await;
    let again: Vec<_> = waiting.messages.iter().cloned().map(QueuedMessage::as_it_is).collect();
    fixture.world.queues.put_all("records", &again).await;
    fixture.world.until_depth("records", 0).await;
    assert_eq!(statuses(&waiting.release().await), [201, 200]);
    fixture.world.queues.put_all("records", &again).await;
    let worker = fixture.world.workers.last().expect("a worker");
    eventually("all are handled", PATIENCE, async || {
        let handled = worker.metrics().await.sum("connect_queue_lag_seconds_count", &[("queue", "records")]);
        if handled == 7.0 { Ok(()) } else { Err(handled.to_string()) }
    })
    .await;
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM clients").await, 2);
    assert_eq!(count_used(&fixture.world).await, 4, "the two of the fixture, and these two");
}

#[tokio::test]
async fn a_worker_that_is_killed_between_the_two_round_trips_leaves_nothing_and_the_next_does_all() {
    let mut fixture = Fixture::of(World::with().through_proxies()).await;
    let bo = new_client(&fixture.world, json!({"email": "bo@example.com"})).await;
    let change = patch_of(&fixture.world.key, &client_route(&bo), &json!({"name": "Bo"}));
    let requests = vec![fixture.post_email("cy@example.com"), change, fixture.post_email("di@example.com")];
    let waiting = fixture.hand_over(requests).await;
    let lock = fixture.lock(&bo).await;
    waiting.lock.batch_execute("COMMIT").await.expect("a commit");
    record(&waiting.first.await.expect("an answer"), 200);
    fixture.until_worker_waits().await;
    // The first flight ends on the server, and the worker never hears of it.
    fixture.world.proxies().postgres.stall();
    lock.batch_execute("COMMIT").await.expect("a commit");
    let ended = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'records' AND state = 'idle in transaction'";
    until_count(&fixture.world, "the first flight has ended", ended, 1).await;
    fixture.world.workers[0].signal("KILL");
    fixture.world.workers.clear();
    fixture.world.proxies().postgres.restore();
    until_count(&fixture.world, "the unit is rolled back", ended, 0).await;
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM clients").await, 2);
    fixture.world.add_worker().await;
    assert_eq!(statuses(&answers(waiting.answers).await), [201, 200, 201]);
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM clients").await, 4);
    assert_eq!(count_used(&fixture.world).await, 6);
}

async fn until_count(world: &World, what: &str, query: &str, expected: i64) {
    eventually(what, PATIENCE, async || match world.database.count(query).await {
        found if found == expected => Ok(()),
        found => Err(format!("{found} of {expected}")),
    })
    .await;
}

#[tokio::test]
async fn a_write_whose_time_is_over_is_not_begun_and_costs_the_others_nothing() {
    let mut fixture = Fixture::start().await;
    let emails = ["bo@example.com", "cy@example.com", "di@example.com"];
    let requests = emails.map(|email| fixture.post_email(email)).to_vec();
    let expire = |at: usize, message: QueuedMessage| {
        let meta = message.header("x-connect-meta").expect("metadata");
        let mut meta: Value = serde_json::from_str(&meta).expect("JSON");
        if at == 1 {
            meta["deadline"] = meta["publishedAt"].clone();
        }
        message.with_meta(&meta.to_string())
    };
    let answers = fixture.hand_over_as(requests, expire).await.release().await;
    assert_eq!(statuses(&answers), [201, 503, 201]);
    answers[1].assert_error(503, "processing_timeout");
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM clients").await, 3);
}

#[tokio::test]
async fn a_quota_of_one_agency_refuses_no_write_of_another() {
    let mut fixture = Fixture::start().await;
    let zeta = fixture.world.add_tenant("zeta").await;
    let set = ["tenant", "set", "--tenant", "zeta", "--monthly-quota", "1"];
    fixture.world.connectctl.json(&set).await;
    let of_zeta = |email: &str| post_of(&zeta, "/clients", email, &json!({"email": email}));
    let requests = vec![
        of_zeta("bo@example.com"),
        fixture.post_email("bo@example.com"),
        of_zeta("cy@example.com"),
        fixture.post_email("cy@example.com"),
    ];
    let answers = fixture.together(requests).await;
    assert_eq!(statuses(&answers), [201, 201, 429, 201]);
    assert_eq!(count_used(&fixture.world).await, 4);
}

#[tokio::test]
async fn an_identity_that_moves_between_clients_waits_for_no_row_while_it_holds_others() {
    let mut fixture = Fixture::start().await;
    let key = fixture.world.key.clone();
    let first = new_client(&fixture.world, json!({"email": "bo@example.com"})).await;
    let moved = json!({"email": "cy@example.com", "externalId": "cy"});
    let second = new_client(&fixture.world, moved).await;
    // The unit locks the second client, which gives up its external id, and changes the first, which it has only read.
    let requests = vec![
        patch_of(&key, &client_route(&second), &json!({"externalId": "other"})),
        post_of(
            &key,
            "/leads",
            "lead",
            &json!({"contact": {"email": "bo@example.com", "name": "Bo", "phone": "+44 20 7946 0001"}}),
        ),
    ];
    let waiting = fixture.hand_over(requests).await;
    let other = fixture.lock(&first).await;
    waiting.lock.batch_execute("COMMIT").await.expect("a commit");
    record(&waiting.first.await.expect("an answer"), 200);
    fixture.until_worker_waits().await;
    other.batch_execute(&lock_of(&second)).await.expect("no deadlock: the unit that waits holds nothing");
    other.batch_execute("COMMIT").await.expect("a commit");
    assert_eq!(statuses(&answers(waiting.answers).await), [200, 201]);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(fixture.world.database.count(deadlocks).await, 0);
}

#[tokio::test]
async fn a_worker_of_the_previous_release_and_this_one_answer_a_key_once() {
    let fixture = Fixture::start().await;
    let key = &fixture.world.key;
    // The transaction of the other worker: the key's lock, the client, the response, the counter.
    let other = fixture.world.database.connect().await;
    let tenant = "(SELECT tenant_id FROM tenants WHERE slug = 'acme')";
    let hash = format!(
        "('x' || encode(substring(sha256(uuid_send({tenant}) || 'idempotency'::bytea || '\\x00'::bytea \
         || '{}/k-1'::bytea) from 1 for 8), 'hex'))::bit(64)::bigint",
        key.prefix
    );
    let begin = format!("BEGIN; SELECT pg_advisory_xact_lock({hash})");
    other.batch_execute(&begin).await.expect("nobody has it");
    let answer = spawn(&fixture.world, fixture.post_email_with("k-1", "bo@example.com"));
    fixture.until_worker_waits().await;
    let write = format!(
        "INSERT INTO clients (tenant_id, client_id, name, email, email_key, client_type, created_at, updated_at)
         VALUES ({tenant}, gen_random_uuid(), '', 'bo@example.com', 'bo@example.com', 'individual', now(), now());
         INSERT INTO idempotency_keys (tenant_id, key_prefix, idempotency_key, request_hash, status, body, created_at)
         VALUES ({tenant}, '{}', 'k-1', '\\x00', 201, '{{}}', now());
         SELECT count_write({tenant}, date_trunc('month', now())::date, now() + interval '1 minute');
         COMMIT",
        key.prefix
    );
    other.batch_execute(&write).await.expect("it is written");
    // Not 409: what the key was answered with comes before who exists.
    answer.await.expect("an answer").assert_error(422, "idempotency_key_reused");
    assert_eq!(count_used(&fixture.world).await, 2);
}
