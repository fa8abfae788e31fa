//! Which member gets a new lead (D16).

use super::{outbox, submit_enquiry};
use serde_json::{Value, json};
use tests::{UNREACHED_RECEIVER, World};

/// Opens leads one after the other and returns their owners' emails.
async fn owners(world: &World, count: usize) -> Vec<Value> {
    let mut owners = Vec::new();
    for _ in 0..count {
        let lead = submit_enquiry(world, json!({})).await["leadId"].clone();
        owners.push(world.lead(&lead).await["owner"]["email"].clone());
    }
    owners
}

#[tokio::test]
async fn assigns_leads_to_members_in_rotation_and_notifies_each() {
    let world = World::shared().await;
    let owners = owners(&world, 4).await;
    assert_ne!(owners[0], owners[1]);
    assert_eq!(owners[..2], owners[2..]);
    let notifications = world.notifications().await;
    assert_eq!(notifications.iter().map(|one| one["to"].clone()).collect::<Vec<_>>(), owners);
    assert!(
        notifications.iter().all(|one| one["kind"] == "lead_assigned" && one["leadId"].is_string()),
        "{notifications:?}"
    );
}

#[tokio::test]
async fn a_removed_member_gets_no_new_leads() {
    let world = World::shared().await;
    let both = owners(&world, 2).await;
    assert!(both.contains(&json!("ben@acme.test")), "{both:?}");
    world.connectctl.json(&["member", "remove", "--tenant", "acme", "--email", "ben@acme.test"]).await;
    assert_eq!(owners(&world, 3).await, vec![json!("asha@acme.test"); 3]);
    // Their old leads stay theirs.
    let kept = world.pipeline(&[]).await.into_iter().find(|lead| lead["owner"]["email"] == "ben@acme.test");
    assert_eq!(kept.expect("the old one")["owner"]["name"], "Ben");
}

#[tokio::test]
async fn without_members_a_lead_has_no_owner_and_nobody_is_notified() {
    let world = World::shared().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    for email in ["asha@acme.test", "ben@acme.test"] {
        world.connectctl.json(&["member", "remove", "--tenant", "acme", "--email", email]).await;
    }
    let lead = submit_enquiry(&world, json!({})).await["leadId"].clone();
    assert_eq!(world.lead(&lead).await["owner"], json!(null));
    assert!(world.notifications().await.is_empty());
    assert!(outbox(&world, &[]).await.is_empty());
}
