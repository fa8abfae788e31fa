//! A record that another transaction is just changing is found all the same, by whatever names it (D10): the worker
//! waits for it, and takes it as it is then.

use crate::records::patch_of;
use serde_json::{Value, json};
use tests::{Event, PATIENCE, World, event, eventually, text};

/// Does `work` while somebody changes every row of `table`, who commits as soon as the worker waits for it.
async fn while_changed<T>(world: &World, table: &str, work: impl Future<Output = T>) -> T {
    let other = world.database.connect().await;
    let change = format!("BEGIN; UPDATE {table} SET updated_at = now()");
    other.batch_execute(&change).await.expect("nobody has them");
    let commit = async {
        let waits = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("the worker waits", PATIENCE, async || match world.database.count(waits).await {
            0 => Err("nobody waits".to_owned()),
            _ => Ok(()),
        })
        .await;
        other.batch_execute("COMMIT").await.expect("a commit");
    };
    futures_util::join!(work, commit).0
}

/// Events of a contact, each by another of its identities, and each with a change: the worker writes the client.
fn names(of: usize) -> [Event; 3] {
    let ([email, phone], told) = (identities(of), |name| event("contact.updated").name(name));
    [
        told("Ana by email").email(&email),
        told("Ana by phone").phone(&phone),
        told("Ana by id").external_id(&format!("user-{of}")),
    ]
}

/// Email and phone of a contact.
fn identities(of: usize) -> [String; 2] {
    [format!("{of}@example.com"), format!("+44 20 7946 00{of:02}")]
}

/// A contact that all its names find, with an enquiry.
async fn contact(world: &World, of: usize) -> Value {
    let [email, phone] = identities(of);
    let enquiry = event("enquiry.submitted").email(&email).phone(&phone).external_id(&format!("user-{of}"));
    world.accept(enquiry.name("Ana")).await
}

#[tokio::test]
async fn a_client_is_found_by_each_of_its_names_and_all_of_them_together() {
    let world = World::start().await;
    let known = contact(&world, 0).await;
    contact(&world, 1).await;
    for named in names(0) {
        let result = while_changed(&world, "clients", world.result(named)).await;
        assert_eq!(
            (&result["status"], &result["clientId"]),
            (&json!("accepted"), &known["clientId"]),
            "{result}"
        );
    }
    let together = [names(0), names(1)].concat();
    for result in while_changed(&world, "clients", world.results(&together)).await {
        assert_eq!(result["status"], "accepted", "{result}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 2);
}

#[tokio::test]
async fn records_writes_find_the_client_and_the_enquiry_that_they_name() {
    let world = World::start().await;
    let known = contact(&world, 0).await;
    let (client, lead) = (text(&known["clientId"]), text(&known["leadId"]));
    let changes = [
        (format!("/clients/{client}"), json!({"email": "new@example.com"})),
        (format!("/leads/{lead}"), json!({"stage": "follow_up"})),
        (format!("/leads/{lead}/trip"), json!({"party": {"adults": 2}, "changeSummary": "two"})),
    ];
    for (route, change) in changes {
        let request = patch_of(&world.key, &route, &change);
        let answer = while_changed(&world, "clients", world.http().send(&request)).await;
        assert_eq!(answer.status, 200, "{route}: {answer:?}");
    }
}

#[tokio::test]
async fn credits_find_the_invoices_that_they_belong_to() {
    let world = World::start().await;
    for of in 0..2 {
        contact(&world, of).await;
        let booked =
            json!({"bookingRef": format!("BR-{of}"), "amount": 1000, "currency": "INR", "creditUsed": 500});
        world
            .accept(names(of)[0].clone().payload(booked).with("eventType", json!("booking.completed")))
            .await;
    }
    let credits = [0, 1].map(|of| {
        let applied = json!({"bookingRef": format!("BR-{of}"), "appliedRupees": 500});
        event("booking.credit_applied").email(&identities(of)[0]).payload(applied)
    });
    for result in while_changed(&world, "invoices", world.results(&credits)).await {
        assert_eq!((&result["status"], result.get("warnings")), (&json!("accepted"), None), "{result}");
    }
    assert_eq!(
        world.database.count("SELECT count(*) FROM invoices WHERE credit_state = 'confirmed'").await,
        2
    );
}
