//! A unit of work is two round trips, with each statement once, however many events it has (architecture: Transactions
//! in two round trips).

use serde_json::json;
use tests::{MAX_WAIT, RECORDS, StatementRecorder, UNREACHED_RECEIVER, World, event, eventually};

/// A worker with one lane for each queue behind a recorder.
async fn recorded_world() -> (World, StatementRecorder) {
    let mut world = World::with().workers(0).set("CONNECT_WORKER_LANES", "1").start().await;
    let recorder = world.record_statements();
    world.add_worker().await;
    (world, recorder)
}

/// Statements, given as their names with blanks between them.
fn round_trip(statements: &str) -> Vec<String> {
    statements.split(' ').map(str::to_owned).collect()
}

/// What is sent for transactions. Statements that are new to a connection are prepared before.
fn transactions(recorder: &StatementRecorder, pool: &str) -> Vec<Vec<String>> {
    let is_of_transaction = |statements: &Vec<String>| {
        statements.iter().any(|statement| ["BEGIN", "COMMIT", "ROLLBACK"].contains(&statement.as_str()))
    };
    recorder.take(pool).into_iter().filter(is_of_transaction).collect()
}

/// Waits until a unit that had nothing to write is rolled back, for which its reply does not wait. Returns its round trips.
async fn until_rolled_back(recorder: &StatementRecorder, pool: &str) -> Vec<Vec<String>> {
    let mut sent = Vec::new();
    eventually("it is rolled back", MAX_WAIT, async || {
        sent.extend(transactions(recorder, pool));
        if sent.len() > 1 { Ok(()) } else { Err(format!("{sent:?}")) }
    })
    .await;
    sent
}

#[tokio::test]
async fn a_batch_of_several_types_is_one_unit_with_each_statement_once() {
    let (world, recorder) = recorded_world().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let ana = |kind: &str| event(kind).email("ana@gmail.com");
    world.accept(ana("enquiry.submitted")).await;
    transactions(&recorder, "worker");
    recorder.take("counters");

    let balance = json!({"availablePaise": 5, "asOf": "2026-05-01T10:00:00Z"});
    let events = [
        event("contact.identified").email("bo@gmail.com"),
        ana("contact.updated").name("Ana B"),
        event("enquiry.submitted").email("cy@gmail.com"),
        ana("quote.requested"),
        ana("booking.abandoned"),
        ana("traveller.discovery_upserted").payload(json!({"discovery": {"tripNotes": "sea"}})),
        event("employee.credit_updated").email("di@gmail.com").payload(balance),
    ];
    let loads = round_trip(
        "BEGIN tenants.load clients.lock members.load ledger.load clients.load leads.load \
         profiles.load credits.load",
    );
    let writes = round_trip(
        "ledger.insert clients.update clients.insert leads.insert leads.update trips.insert \
         proposals.insert discoveries.upsert credits.upsert timeline.insert notifications.insert \
         outbox.insert COMMIT",
    );
    recorder.expect(&[loads.clone(), writes.clone()]);
    let statuses = async || {
        let results = world.results(&events).await;
        results.iter().map(|result| tests::text(&result["status"]).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(statuses().await, ["accepted"; 7]);
    assert_eq!(transactions(&recorder, "worker"), [loads.clone(), writes]);
    let reserved = recorder.take("counters").concat();
    let found = reserved.iter().filter(|statement| *statement == "counters.reserve").count();
    assert_eq!(found, 1, "{reserved:?}");

    assert_eq!(statuses().await, ["duplicate"; 7]);
    assert_eq!(until_rolled_back(&recorder, "worker").await, [loads, round_trip("ROLLBACK")]);
}

#[tokio::test]
async fn a_records_write_checks_key_and_quota_in_its_two_round_trips() {
    let (world, recorder) = recorded_world().await;
    let loads =
        round_trip("BEGIN tenants.load idempotency.lock idempotency.find members.load ledger.load clients.load");
    let writes = round_trip(
        "ledger.insert clients.insert leads.insert trips.insert proposals.insert timeline.insert \
         notifications.insert idempotency.insert usage.count COMMIT",
    );
    recorder.expect(&[loads.clone(), writes.clone()]);
    let open = async || {
        let body = json!({"contact": {"email": "ana@gmail.com"}}).to_string();
        let request = world.key.records("POST", &format!("{RECORDS}/leads"), body);
        let response = world.http().send(&request.with("idempotency-key", "k-1")).await.assert_status(201);
        response.header("idempotent-replayed") == "true"
    };
    assert!(!open().await);
    assert_eq!(transactions(&recorder, "records"), [loads.clone(), writes]);
    assert!(open().await);
    assert_eq!(until_rolled_back(&recorder, "records").await, [loads, round_trip("ROLLBACK")]);
}
