//! A record that another transaction is changing is found by each of its identities (D10): the worker waits for the
//! transaction and uses the record as it is then.

use crate::records::patch_request;
use serde_json::{Value, json};
use tests::{Event, World, event, text};

/// Runs `work` while another session changes every row of `table`, and commits as soon as the worker waits for it.
async fn while_locked<T>(world: &World, table: &str, work: impl Future<Output = T>) -> T {
    let other = world.database.begin(&format!("UPDATE {table} SET updated_at = now()")).await;
    let commit = async {
        world.database.until_lock_wait().await;
        other.batch_execute("COMMIT").await.expect("a commit");
    };
    futures_util::join!(work, commit).0
}

/// Events of one contact, each by another identity and each with a change, so that the worker writes the client.
fn events_by_each_identity(number: usize) -> [Event; 3] {
    let ([email, phone], renamed) = (identities(number), |name| event("contact.updated").name(name));
    [
        renamed("Ana by email").email(&email),
        renamed("Ana by phone").phone(&phone),
        renamed("Ana by id").external_id(&format!("user-{number}")),
    ]
}

/// Email and phone of a contact.
fn identities(number: usize) -> [String; 2] {
    [format!("{number}@example.com"), format!("+44 20 7946 00{number:02}")]
}

/// Creates a contact with all its identities and a lead.
async fn contact(world: &World, number: usize) -> Value {
    let [email, phone] = identities(number);
    let enquiry = event("enquiry.submitted").email(&email).phone(&phone).external_id(&format!("user-{number}"));
    world.accept(enquiry.name("Ana")).await
}

#[tokio::test]
async fn each_locked_record_is_found() {
    let world = World::start().await;
    events_find_a_client_by_each_identity_and_by_all_together(&world).await;
    records_writes_find_a_client_and_its_lead(&world).await;
    credit_events_find_their_invoices(&world).await;
}

async fn events_find_a_client_by_each_identity_and_by_all_together(world: &World) {
    let known = contact(world, 0).await;
    contact(world, 1).await;
    for named in events_by_each_identity(0) {
        let result = while_locked(world, "clients", world.result(named)).await;
        let expected = (&json!("accepted"), &known["clientId"]);
        assert_eq!((&result["status"], &result["clientId"]), expected, "{result}");
    }
    let together = [events_by_each_identity(0), events_by_each_identity(1)].concat();
    for result in while_locked(world, "clients", world.results(&together)).await {
        assert_eq!(result["status"], "accepted", "{result}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 2);
}

async fn records_writes_find_a_client_and_its_lead(world: &World) {
    let known = contact(world, 2).await;
    let (client, lead) = (text(&known["clientId"]), text(&known["leadId"]));
    let changes = [
        (format!("/clients/{client}"), json!({"email": "new@example.com"})),
        (format!("/leads/{lead}"), json!({"stage": "follow_up"})),
        (format!("/leads/{lead}/trip"), json!({"party": {"adults": 2}, "changeSummary": "two"})),
    ];
    for (route, change) in changes {
        let request = patch_request(&world.key, &route, &change);
        let response = while_locked(world, "clients", world.http().send(&request)).await;
        assert_eq!(response.status, 200, "{route}: {response:?}");
    }
}

async fn credit_events_find_their_invoices(world: &World) {
    for number in 3..5 {
        contact(world, number).await;
        let booked =
            json!({"bookingRef": format!("BR-{number}"), "amount": 1000, "currency": "INR", "creditUsed": 500});
        world
            .accept(
                events_by_each_identity(number)[0]
                    .clone()
                    .payload(booked)
                    .with("eventType", json!("booking.completed")),
            )
            .await;
    }
    let credits = [3, 4].map(|number| {
        let applied = json!({"bookingRef": format!("BR-{number}"), "appliedRupees": 500});
        event("booking.credit_applied").email(&identities(number)[0]).payload(applied)
    });
    for result in while_locked(world, "invoices", world.results(&credits)).await {
        assert_eq!((&result["status"], result.get("warnings")), (&json!("accepted"), None), "{result}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM invoices WHERE credit_state = 'confirmed'").await, 2);
}
