//! Events that are told to subscribers, that came before, or whose unit runs again.

use super::{CONTACT, MEMBERS, NEW_LEAD, Recorded, email, loads, writes};
use tests::event::batch;
use tests::{PATIENCE, event, eventually};
use uuid::Uuid;

#[tokio::test]
async fn subscribers_cost_a_unit_one_statement_and_a_notification_beside_it() {
    let recorded = Recorded::start().await;
    let create = ["subscription", "create", "--tenant", "acme", "--url", "https://1.1.1.1/hooks"];
    recorded.world.connectctl.json(&create).await;
    let enquiry = recorded.event(|| event("enquiry.submitted").email(&email())).await;
    assert_eq!(enquiry, [loads(&MEMBERS), writes(&[&NEW_LEAD[..], &["outbox.insert"]].concat())]);

    // The notification is sent on the connection of the counters, after the commit.
    recorded.recorder.take("counters");
    recorded.world.accept(event("enquiry.submitted").email(&email())).await;
    eventually("the dispatcher is notified", PATIENCE, async || {
        let sent = recorded.recorder.take("counters");
        let is_notification = |statement: &String| statement.contains("pg_notify");
        match sent.iter().filter(|flight| flight.statements.iter().any(is_notification)).count() {
            0 => Err(format!("{sent:?}")),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test]
async fn an_event_without_subscribers_emits_nothing_and_notifies_nobody() {
    let recorded = Recorded::start().await;
    let enquiry = recorded.event(|| event("enquiry.submitted").email(&email())).await;
    assert_eq!(enquiry, [loads(&MEMBERS), writes(&NEW_LEAD)]);
    let sent = recorded.recorder.take("counters");
    let statements: Vec<&String> = sent.iter().flat_map(|flight| &flight.statements).collect();
    assert!(statements.iter().all(|statement| !statement.contains("pg_notify")), "{statements:?}");
}

#[tokio::test]
async fn a_duplicate_is_one_round_trip_and_writes_nothing() {
    let recorded = Recorded::start().await;
    let known = email();
    for kind in ["contact.identified", "enquiry.submitted"] {
        let sent = event(kind).email(&known);
        recorded.world.accept(sent.clone()).await;
        let repeat = async || {
            let result = recorded.world.result(sent.clone()).await;
            assert_eq!(result["status"], "duplicate", "{result}");
        };
        let flights = recorded.flights("worker", repeat).await;
        let loaded = if kind == "contact.identified" { loads(&CONTACT) } else { loads(&MEMBERS) };
        // The rollback is sent and nobody waits for it.
        assert_eq!(flights, [loaded, vec!["ROLLBACK".to_owned()]], "{kind}");
    }
}

#[tokio::test]
async fn a_unit_that_met_another_one_runs_again_with_everything_locked_in_two_round_trips() {
    let recorded = Recorded::start().await;
    let known = email();
    recorded.world.accept(event("contact.identified").email(&known)).await;
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'worker' AND wait_event_type = 'Lock'";
    let conflict = async || {
        let other = recorded.world.database.connect().await;
        other.batch_execute("BEGIN; SELECT FROM clients FOR UPDATE").await.expect("the rows are free");
        let update = event("contact.updated").email(&known).name(&Uuid::now_v7().to_string());
        let request = recorded.world.key.events(batch(&[update]));
        let commit = async {
            eventually("the unit waits for the client", PATIENCE, async || {
                match recorded.world.database.count(waiting).await {
                    0 => Err("nobody waits".to_owned()),
                    _ => Ok(()),
                }
            })
            .await;
            other.batch_execute("COMMIT").await.expect("a commit");
        };
        let (answer, ()) = futures_util::join!(recorded.world.http().send(&request), commit);
        assert_eq!(answer.json()["accepted"], 1, "{answer:?}");
    };
    let flights = recorded.flights("worker", conflict).await;
    // The first attempt gives up on the row that another transaction has locked. Nobody waits for its rollback.
    let rollbacks = flights.iter().flatten().filter(|statement| *statement == "ROLLBACK").count();
    let waited_for = flights.into_iter().map(|mut flight| {
        flight.retain(|statement| statement != "ROLLBACK");
        flight
    });
    let waited_for: Vec<Vec<String>> = waited_for.filter(|flight| !flight.is_empty()).collect();
    let written = writes(&["ledger.insert", "clients.update", "timeline.insert"]);
    let locked = loads(&[&["locks.take", "clients.lock"], &CONTACT[..]].concat());
    assert_eq!(waited_for, [loads(&CONTACT), written.clone(), locked, written]);
    assert_eq!(rollbacks, 1);
}
