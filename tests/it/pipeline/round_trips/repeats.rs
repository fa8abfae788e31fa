//! Events with subscribers, duplicates, and units that are retried.

use super::actions::{self, OF_LEAD};
use super::{CONTACT, MEMBERS, NEW_LEAD, Recorded, email, loads, writes};
use crate::pipeline::email_lock;
use crate::records::patch_request;
use serde_json::{Value, json};
use tests::event::batch;
use tests::{MAX_WAIT, QueuedMessage, RECORDS, UNREACHED_RECEIVER, event, eventually};
use uuid::Uuid;

/// What is sent, without the rollbacks, for which nobody waits.
fn waited_for(round_trips: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let without_rollbacks = round_trips.into_iter().map(|mut round_trip| {
        round_trip.retain(|statement| statement != "ROLLBACK");
        round_trip
    });
    without_rollbacks.filter(|round_trip| !round_trip.is_empty()).collect()
}

#[tokio::test]
async fn subscribers_add_one_statement_and_one_notification() {
    let recorded = Recorded::start().await;
    recorded.world.subscribe(UNREACHED_RECEIVER).await;
    let enquiry = recorded.event(|| event("enquiry.submitted").email(&email())).await;
    assert_eq!(enquiry, [loads(&MEMBERS), writes(&[&NEW_LEAD[..], &["outbox.insert"]].concat())]);

    // The notification is sent on the connection of the counters, after the commit.
    recorded.recorder.take("counters");
    recorded.world.accept(event("enquiry.submitted").email(&email())).await;
    eventually("the dispatcher is notified", MAX_WAIT, async || {
        let sent = recorded.recorder.take("counters");
        let is_notification = |statement: &String| statement.contains("pg_notify");
        match sent.iter().filter(|round_trip| round_trip.statements.iter().any(is_notification)).count() {
            0 => Err(format!("{sent:?}")),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_subscriber_costs_writes_and_actions_the_same_statement() {
    let recorded = Recorded::start().await;
    let create = ["subscription", "create", "--tenant", "acme", "--url", "https://1.1.1.1/hooks"];
    recorded.world.connectctl.json(&create).await;
    let changed = ["ledger.insert", "leads.update", "trips.update", "outbox.insert"];
    let stage = async || {
        let lead = recorded.lead().await;
        actions::action("stage", json!({"lead": lead, "stage": "negotiation"}))
    };
    assert_eq!(recorded.action(stage).await, [loads(&OF_LEAD), writes(&changed)]);
    let patch = async || {
        let route = format!("/leads/{}", recorded.lead().await);
        patch_request(&recorded.world.key, &route, &json!({"stage": "negotiation"}))
    };
    let [_, written] = recorded.write(200, patch).await;
    assert_eq!(written, writes(&[&changed[..], &["usage.count"]].concat()));
}

#[tokio::test]
async fn an_event_without_subscribers_emits_and_notifies_nothing() {
    let recorded = Recorded::start().await;
    let enquiry = recorded.event(|| event("enquiry.submitted").email(&email())).await;
    assert_eq!(enquiry, [loads(&MEMBERS), writes(&NEW_LEAD)]);
    let sent = recorded.recorder.take("counters");
    let statements: Vec<&String> = sent.iter().flat_map(|round_trip| &round_trip.statements).collect();
    assert!(statements.iter().all(|statement| !statement.contains("pg_notify")), "{statements:?}");
}

#[tokio::test]
async fn a_duplicate_takes_one_round_trip_and_writes_nothing() {
    let recorded = Recorded::start().await;
    let known = email();
    for kind in ["contact.identified", "enquiry.submitted"] {
        let sent = event(kind).email(&known);
        recorded.world.accept(sent.clone()).await;
        let repeat = async || {
            let result = recorded.world.result(sent.clone()).await;
            assert_eq!(result["status"], "duplicate", "{result}");
        };
        let round_trips = recorded.round_trips("worker", repeat).await;
        let loaded = if kind == "contact.identified" { loads(&CONTACT) } else { loads(&MEMBERS) };
        // The rollback is sent and nobody waits for it.
        assert_eq!(round_trips, [loaded, vec!["ROLLBACK".to_owned()]], "{kind}");
    }
}

#[tokio::test]
async fn an_action_whose_message_comes_again_is_one_round_trip_and_writes_nothing() {
    let recorded = Recorded::start().await;
    let action = actions::action("archive", json!({"lead": recorded.lead().await}));
    let message = QueuedMessage::new(action.to_string().as_bytes()).with_id(&Uuid::now_v7().to_string());
    let reply = async || -> Value {
        let reply = recorded.world.queues.call("crm", &message).await;
        serde_json::from_slice(&reply.body).expect("JSON")
    };
    let done = reply().await;
    assert_eq!((&done["ok"], &done["stage"]), (&json!(true), &json!("archived")), "{done}");
    let again = async || assert_eq!(reply().await, done);
    let round_trips = recorded.round_trips("records", again).await;
    assert_eq!(round_trips, [loads(&OF_LEAD), vec!["ROLLBACK".to_owned()]]);
}

#[tokio::test]
async fn a_write_that_met_another_unit_runs_again_with_everything_locked_in_two_round_trips() {
    let recorded = Recorded::start().await;
    let (other, waiting) = (
        recorded.world.database.connect().await,
        "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'records' AND wait_event = 'advisory'",
    );
    let conflict = async || {
        let new = email();
        let lock = format!("BEGIN; SELECT pg_advisory_xact_lock({})", email_lock(&new));
        other.batch_execute(&lock).await.expect("nobody has it");
        let body = json!({"email": new}).to_string();
        let post = recorded.world.key.records("POST", &format!("{RECORDS}/clients"), body);
        let post = post.with("idempotency-key", Uuid::now_v7().to_string());
        let commit = async {
            eventually("the write waits for the email's lock", MAX_WAIT, async || {
                match recorded.world.database.count(waiting).await {
                    0 => Err("nobody waits".to_owned()),
                    _ => Ok(()),
                }
            })
            .await;
            other.batch_execute("COMMIT").await.expect("a commit");
        };
        let (response, ()) = futures_util::join!(recorded.world.http().send(&post), commit);
        assert_eq!(response.status, 201, "{response:?}");
    };
    let round_trips = recorded.round_trips("records", conflict).await;
    let own = ["idempotency.lock", "idempotency.find"];
    let first = loads(&[&own[..], &CONTACT].concat());
    let locked = loads(&[&own[..], &["locks.take", "clients.lock"], &CONTACT].concat());
    let written = writes(&["ledger.insert", "clients.insert", "idempotency.insert", "usage.count"]);
    assert_eq!(waited_for(round_trips), [first, locked, written]);
}

#[tokio::test]
async fn a_conflicting_unit_is_retried_with_all_locks_in_two_round_trips() {
    let recorded = Recorded::start().await;
    let known = email();
    recorded.world.accept(event("contact.identified").email(&known)).await;
    let conflict = async || {
        let other = recorded.world.database.connect().await;
        other.batch_execute("BEGIN; SELECT FROM clients FOR UPDATE").await.expect("the rows are free");
        let update = event("contact.updated").email(&known).name(&Uuid::now_v7().to_string());
        let request = recorded.world.key.events(batch(&[update]));
        let commit = async {
            recorded.world.database.until_lock_wait_of("worker").await;
            other.batch_execute("COMMIT").await.expect("a commit");
        };
        let (response, ()) = futures_util::join!(recorded.world.http().send(&request), commit);
        assert_eq!(response.json()["accepted"], 1, "{response:?}");
    };
    let round_trips = recorded.round_trips("worker", conflict).await;
    // The first attempt gives up on the row that another transaction has locked. Nobody waits for its rollback.
    let rollbacks = round_trips.iter().flatten().filter(|statement| *statement == "ROLLBACK").count();
    let written = writes(&["ledger.insert", "clients.update", "timeline.insert"]);
    let locked = loads(&[&["locks.take", "clients.lock"], &CONTACT[..]].concat());
    assert_eq!(waited_for(round_trips), [loads(&CONTACT), written.clone(), locked, written]);
    assert_eq!(rollbacks, 1);
}
