//! Queued writes are applied in one transaction: each gets the response that it would get alone.

mod fixture;

use self::fixture::{Fixture, lock_statement, responses};
use super::{
    client_route, data, new_client, new_lead, patch_request, post_request, record, spawn, trip_route, writes_used,
};
use serde_json::{Value, json};
use tests::{HttpRequest, HttpResponse, MAX_WAIT, QueuedMessage, World, eventually, text};

async fn count_used(world: &World) -> u64 {
    writes_used(world).await.as_u64().expect("a count")
}

fn statuses(responses: &[HttpResponse]) -> Vec<u16> {
    responses.iter().map(|response| response.status).collect()
}

#[tokio::test]
async fn queued_writes_share_a_transaction_and_a_refused_one_does_not_affect_the_others() {
    let mut fixture = Fixture::start().await;
    let lead = new_lead(&fixture.world, json!({})).await;
    let key = &fixture.world.key;
    let before = count_used(&fixture.world).await;
    let nowhere = "/leads/01900000-0000-7000-8000-000000000000";
    let requests = vec![
        fixture.post_email("bo@example.com"),
        fixture.post("again", &json!({"email": "bo@example.com"})),
        patch_request(key, nowhere, &json!({"title": "x"})),
        post_request(key, "/leads", "lead", &json!({"contact": {"email": "bo@example.com"}})),
        patch_request(key, &trip_route(&lead), &json!({"message": "Hello"})),
        patch_request(key, &client_route(&fixture.locked_client), &json!({"company": "Acme"})),
    ];
    let expected = [
        "BEGIN tenants.load idempotency.lock idempotency.find clients.lock members.load ledger.load \
         clients.load clients.load_named company.load leads.load rosters.load",
        "ledger.insert clients.update clients.insert leads.insert trips.insert trips.update proposals.insert \
         timeline.insert inbox.insert notifications.insert idempotency.insert usage.count COMMIT",
    ]
    .map(|statements| statements.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let recorder = fixture.world.record_statements();
    recorder.expect(&expected);
    let waiting = fixture.queue_behind_lock(requests).await;
    recorder.take("records");
    let responses = waiting.release().await;
    assert_eq!(statuses(&responses), [201, 409, 404, 201, 200, 200]);
    let bo = record(&responses[0], 201);
    assert_eq!(responses[1].json()["clientId"], bo["id"]);
    assert_eq!(record(&responses[3], 201)["clientId"], bo["id"]);
    assert_eq!(record(&responses[5], 200)["name"], "Held");
    let round_trips = recorder.take("records");
    let executed: Vec<_> = round_trips.into_iter().filter(|statements| !statements[0].starts_with("PREPARE")).collect();
    assert!(executed.ends_with(&expected), "{executed:#?}");
    assert_eq!(count_used(&fixture.world).await, before + 5);
}

/// Retries, conditions, quotas, a deadline, and the contact entry of an address that moves away from a company's domain.
#[tokio::test]
async fn each_write_of_a_unit_gets_the_response_that_it_would_get_alone() {
    let mut fixture = Fixture::start().await;
    let zeta = fixture.world.add_tenant("zeta").await;
    let create = ["company", "create", "--tenant", "acme", "--name", "Initech", "--domain", "initech.com"];
    fixture.world.connectctl.json(&create).await;
    let (work, home) = (json!({"email": "ana@initech.com"}), json!({"email": "ana@gmail.com"}));
    let ana = new_client(&fixture.world, work.clone()).await;
    let bo = new_client(&fixture.world, json!({"email": "bo@example.com"})).await;
    let key = fixture.world.key.clone();
    let move_ana = |body: &Value| patch_request(&key, &client_route(&ana), body);
    for body in [&home, &json!({"name": "Ana"}), &work] {
        assert_eq!(fixture.world.http().send(&move_ana(body)).await.status, 200);
    }
    // Of the requests seven count, as does the write that they wait behind.
    let quota = (count_used(&fixture.world).await + 8).to_string();
    for (tenant, quota) in [("acme", quota.as_str()), ("zeta", "1")] {
        let set = ["tenant", "set", "--tenant", tenant, "--monthly-quota", quota];
        fixture.world.connectctl.json(&set).await;
    }
    let rename = |name: &str| patch_request(&key, &client_route(&bo), &json!({"name": name}));
    let of_zeta = |email: &str| post_request(&zeta, "/clients", email, &json!({"email": email}));
    let etag = format!("\"{}\"", text(&bo["updatedAt"]));
    let (requests, expected): (Vec<HttpRequest>, Vec<u16>) = [
        (fixture.post_email_with("k-1", "cy@example.com"), 201),
        (fixture.post_email_with("k-1", "cy@example.com"), 201),
        (fixture.post_email_with("k-1", "di@example.com"), 422),
        (rename("One").with("if-match", &etag), 200),
        (rename("Two").with("if-match", &etag), 412),
        (rename("Three"), 200),
        (move_ana(&home), 200),
        (move_ana(&json!({"name": "Ana B"})), 200),
        (fixture.post_email("late@example.com"), 503),
        (of_zeta("bo@example.com"), 201),
        (of_zeta("cy@example.com"), 429),
        (fixture.post_email("di@example.com"), 201),
        (fixture.post_email("ed@example.com"), 201),
        (fixture.post_email("fay@example.com"), 429),
    ]
    .into_iter()
    .unzip();
    let expire = |at: usize, message: QueuedMessage| {
        let meta = message.header("x-connect-meta").expect("metadata");
        let mut meta: Value = serde_json::from_str(&meta).expect("JSON");
        if expected[at] == 503 {
            meta["deadline"] = meta["publishedAt"].clone();
        }
        message.with_meta(&meta.to_string())
    };
    let responses = fixture.queue_behind_lock_with(requests, expire).await.release().await;
    assert_eq!(statuses(&responses), expected);
    assert_eq!((responses[0].header("idempotent-replayed"), &responses[0].body), ("", &responses[1].body));
    assert_eq!(responses[1].header("idempotent-replayed"), "true");
    assert_eq!([3, 5].map(|at: usize| data(&responses[at], 200)["name"].clone()), ["One", "Three"]);
    assert!(responses[3].header("etag") < responses[5].header("etag"), "each change has a version");
    responses[8].assert_error(503, "processing_timeout");
    assert_eq!(count_used(&fixture.world).await.to_string(), quota);
    let listed = "SELECT count(*) FROM account_contacts WHERE email_key = 'ana@initech.com' AND name IS NULL";
    assert_eq!(fixture.world.database.count(listed).await, 1, "and no other address");
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM account_contacts").await, 1);
    let worker = fixture.world.workers.last().expect("a worker");
    let conflicts = [("name", "apply_write"), ("outcome", "conflict")];
    assert_eq!(worker.metrics().await.sum("connect_db_transactions_total", &conflicts), 0.0);
}

#[tokio::test]
async fn a_write_rejected_by_the_database_fails_alone() {
    let mut fixture = Fixture::start().await;
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN IF NEW.name = 'Bad' THEN RAISE 'refused'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON clients FOR EACH ROW EXECUTE FUNCTION refuse()";
    fixture.world.database.execute(refuse).await;
    let bad = fixture.post("bad", &json!({"email": "bad@example.com", "name": "Bad"}));
    let requests = vec![fixture.post_email("bo@example.com"), bad, fixture.post_email("cy@example.com")];
    let responses = fixture.send_as_one_unit(requests).await;
    assert_eq!(statuses(&responses), [201, 500, 201]);
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM clients").await, 3);
    assert_eq!(count_used(&fixture.world).await, 4);
}

#[tokio::test]
async fn redelivered_writes_get_their_responses_and_are_applied_once() {
    let mut fixture = Fixture::start().await;
    let change = patch_request(&fixture.world.key, &client_route(&fixture.locked_client), &json!({"company": "Acme"}));
    let requests = vec![fixture.post_email("bo@example.com"), change];
    let waiting = fixture.queue_behind_lock(requests).await;
    let again: Vec<_> = waiting.messages.iter().cloned().map(QueuedMessage::verbatim).collect();
    fixture.world.queues.publish_all("records", &again).await;
    fixture.until_taken().await;
    assert_eq!(statuses(&waiting.release().await), [201, 200]);
    fixture.world.queues.publish_all("records", &again).await;
    let worker = fixture.world.workers.last().expect("a worker");
    worker.until_sum("connect_queue_lag_seconds_count", &[("queue", "records")], 7.0).await;
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM clients").await, 2);
    assert_eq!(count_used(&fixture.world).await, 4, "the two of the fixture, and these two");
}

#[tokio::test]
async fn a_worker_killed_between_the_round_trips_leaves_nothing_and_the_next_applies_all() {
    let mut fixture = Fixture::start().await;
    let bo = new_client(&fixture.world, json!({"email": "bo@example.com"})).await;
    let change = patch_request(&fixture.world.key, &client_route(&bo), &json!({"name": "Bo"}));
    // The locked write comes first. When its lock lasts for too long, the worker applies the unit write by write, and puts off the
    // locked write with those after it; those before it would be stored.
    let requests = vec![change, fixture.post_email("cy@example.com"), fixture.post_email("di@example.com")];
    let waiting = fixture.queue_behind_lock(requests).await;
    let lock = fixture.lock(&bo).await;
    waiting.lock.batch_execute("COMMIT").await.expect("a commit");
    record(&waiting.first.await.expect("a response"), 200);
    let ended = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'records' AND state = 'idle in transaction'";
    let (database, worker) = (&fixture.world.database, &fixture.world.workers[0]);
    // The first round trip completes on the server, and the frozen worker never gets the result. A lock that has lasted for too long
    // has ended it before, and the worker tries again.
    eventually("the first round trip has ended", MAX_WAIT, async || {
        worker.signal("CONT");
        database.until_lock_wait().await;
        worker.signal("STOP");
        lock.batch_execute("COMMIT").await.expect("a commit");
        database.until_count(&ended.replace("'idle in transaction'", "'active'"), 0).await;
        if database.count(ended).await == 1 {
            return Ok(());
        }
        lock.batch_execute(&format!("BEGIN; {}", lock_statement(&bo))).await.expect("nobody has it");
        Err("it had ended before".to_owned())
    })
    .await;
    fixture.world.workers[0].signal("KILL");
    fixture.world.workers.clear();
    fixture.world.database.until_count(ended, 0).await;
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM clients").await, 2);
    fixture.world.add_worker().await;
    assert_eq!(statuses(&responses(waiting.responses).await), [200, 201, 201]);
    assert_eq!(fixture.world.database.count("SELECT count(*) FROM clients").await, 4);
    assert_eq!(count_used(&fixture.world).await, 6);
}

#[tokio::test]
async fn a_moving_identity_waits_for_no_row_while_holding_others() {
    let mut fixture = Fixture::start().await;
    let key = fixture.world.key.clone();
    let first = new_client(&fixture.world, json!({"email": "bo@example.com"})).await;
    let moved = json!({"email": "cy@example.com", "externalId": "cy"});
    let second = new_client(&fixture.world, moved).await;
    // The unit locks the second client, whose external id changes, and updates the first, which it has not locked.
    let requests = vec![
        patch_request(&key, &client_route(&second), &json!({"externalId": "other"})),
        post_request(
            &key,
            "/leads",
            "lead",
            &json!({"contact": {"email": "bo@example.com", "name": "Bo", "phone": "+44 20 7946 0001"}}),
        ),
    ];
    let waiting = fixture.queue_behind_lock(requests).await;
    let other = fixture.lock(&first).await;
    waiting.lock.batch_execute("COMMIT").await.expect("a commit");
    record(&waiting.first.await.expect("a response"), 200);
    fixture.world.database.until_lock_wait().await;
    other.batch_execute(&lock_statement(&second)).await.expect("no deadlock: the unit that waits holds nothing");
    other.batch_execute("COMMIT").await.expect("a commit");
    assert_eq!(statuses(&responses(waiting.responses).await), [200, 201]);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(fixture.world.database.count(deadlocks).await, 0);
}

#[tokio::test]
async fn two_workers_use_an_idempotency_key_once() {
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
    let response = spawn(&fixture.world, fixture.post_email_with("k-1", "bo@example.com"));
    fixture.world.database.until_lock_wait().await;
    let write = format!(
        "INSERT INTO clients (tenant_id, client_id, name, email, email_key, client_type, created_at, updated_at)
         VALUES ({tenant}, gen_random_uuid(), '', 'bo@example.com', 'bo@example.com', 'individual', now(), now());
         INSERT INTO idempotency_keys (tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body, created_at)
         VALUES ({tenant}, '{}', 'k-1', '\\x00', 201, '', '{{}}', now());
         SELECT count_writes({tenant}, date_trunc('month', now())::date, 1, now() + interval '1 minute');
         COMMIT",
        key.prefix
    );
    other.batch_execute(&write).await.expect("it is written");
    // Not 409: the idempotency key is checked before the existing client.
    response.await.expect("a response").assert_error(422, "idempotency_key_reused");
    assert_eq!(count_used(&fixture.world).await, 2);
}
