//! Who gets a new enquiry (D16).

use super::{ana, enquire, outbox, subscribe};
use serde_json::{Value, json};
use tests::World;

/// Opens enquiries one after the other and gives their owners' emails.
async fn owners(world: &World, count: usize) -> Vec<Value> {
    let mut owners = Vec::new();
    for _ in 0..count {
        let lead = enquire(world, json!({})).await["leadId"].clone();
        owners.push(world.lead(&lead).await["owner"]["email"].clone());
    }
    owners
}

#[tokio::test]
async fn enquiries_go_to_the_members_in_turn_and_each_is_told() {
    let world = World::start().await;
    let owners = owners(&world, 4).await;
    assert_ne!(owners[0], owners[1]);
    assert_eq!(owners[..2], owners[2..]);
    let told = world.notifications().await;
    assert_eq!(told.iter().map(|one| one["to"].clone()).collect::<Vec<_>>(), owners);
    assert!(told.iter().all(|one| one["kind"] == "lead_assigned" && one["leadId"].is_string()), "{told:?}");
}

#[tokio::test]
async fn someone_who_has_left_gets_nothing_more() {
    let world = World::start().await;
    let both = owners(&world, 2).await;
    assert!(both.contains(&json!("ben@acme.test")), "{both:?}");
    world.connectctl.json(&["member", "remove", "--tenant", "acme", "--email", "ben@acme.test"]).await;
    assert_eq!(owners(&world, 3).await, vec![json!("asha@acme.test"); 3]);
    // What was theirs stays theirs.
    let kept = world.pipeline(&[]).await.into_iter().find(|lead| lead["owner"]["email"] == "ben@acme.test");
    assert_eq!(kept.expect("the old one")["owner"]["name"], "Ben");
}

#[tokio::test]
async fn without_members_an_enquiry_has_no_owner_and_nobody_is_told() {
    let world = World::start().await;
    subscribe(&world).await;
    for email in ["asha@acme.test", "ben@acme.test"] {
        world.connectctl.json(&["member", "remove", "--tenant", "acme", "--email", email]).await;
    }
    let lead = enquire(&world, json!({})).await["leadId"].clone();
    assert_eq!(world.lead(&lead).await["owner"], json!(null));
    assert!(world.notifications().await.is_empty());
    assert!(outbox(&world, &[]).await.is_empty());
}

#[tokio::test]
async fn the_assignment_is_the_crms_own_act_and_no_echo_of_the_submitter() {
    let world = World::start().await;
    subscribe(&world).await;
    let result = world.accept(ana("enquiry.submitted").with("origin", json!("website"))).await;
    let outbox = outbox(&world, &[]).await;
    let [assigned] = &outbox[..] else { panic!("one outbound event: {outbox:?}") };
    assert_eq!((&assigned["event_type"], &assigned["origin"]), (&json!("lead.assigned"), &json!("crm")));
    assert_eq!(assigned["key_prefix"], json!(null));
    let envelope = &assigned["envelope"];
    assert_eq!((&envelope["eventType"], &envelope["origin"]), (&json!("lead.assigned"), &json!("crm")));
    assert_eq!((&envelope["specVersion"], &envelope["tenant"]), (&json!("1.0"), &json!("acme")));
    assert_eq!(
        (&envelope["actor"]["type"], &envelope["actor"]["email"]),
        (&json!("contact"), &json!("ana@example.com"))
    );
    let payload = &envelope["payload"];
    assert_eq!(
        [&payload["leadId"], &payload["tripId"], &payload["clientId"]],
        [&result["leadId"], &result["tripId"], &result["clientId"]]
    );
    assert_eq!(payload["owner"], world.lead(&result["leadId"]).await["owner"]);
}
