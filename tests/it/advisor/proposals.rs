//! Proposals: sent, viewed, discarded, and whether a customer's new itinerary is then applied (D20).

use super::{act, lead, open_lead, patch, trip, trip_route};
use serde_json::{Value, json};
use tests::{World, text};

fn offer(opened: &Value) -> Value {
    let url = "https://proposals.example/p/1#start";
    json!({"lead": opened["leadId"], "title": "Goa in May", "url": url, "channel": "email"})
}

/// Sends a new itinerary and returns the reason why it was not applied, or null if it was.
async fn new_itinerary(world: &World, opened: &Value) -> Value {
    let itinerary = json!({"title": "New", "days": []});
    let response = patch(world, &trip_route(opened), &json!({"itinerary": itinerary})).await;
    assert_eq!(response.status, 200, "{response:?}");
    let data = response.json()["data"].clone();
    let reason = data.get("itineraryNotAppliedReason").cloned().unwrap_or_default();
    assert_eq!(data["itineraryApplied"], json!(reason.is_null()), "{data}");
    reason
}

async fn stored(world: &World) -> Value {
    let query = "SELECT proposal_id, status, title, url, channel, sent_at, viewed_at FROM proposals";
    let mut rows = world.database.rows(query, &[]).await;
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

#[tokio::test]
async fn a_sent_proposal_is_shown_as_sent_and_keeps_title_url_and_channel() {
    let world = World::shared().await;
    let opened = open_lead(&world).await;
    let (before, trip_before) = (lead(&world, &opened).await, trip(&world, &opened).await);
    let reply = act(&world, "proposal-send", offer(&opened)).await;
    assert_eq!((&reply["proposalId"], &reply["stage"]), (&opened["proposalId"], &json!("inquiry")));
    let (after, trip_after) = (lead(&world, &opened).await, trip(&world, &opened).await);
    assert_eq!(trip_after["proposal"]["status"], "sent");
    assert_eq!(trip_after["proposal"]["sentAt"], trip_after["updatedAt"], "sending it was the last change");
    assert!(text(&after["updatedAt"]) > text(&before["updatedAt"]));
    assert!(text(&trip_after["updatedAt"]) > text(&trip_before["updatedAt"]));
    let stored = stored(&world).await;
    assert_eq!(stored["proposal_id"], opened["proposalId"]);
    assert_eq!(
        [&stored["title"], &stored["url"], &stored["channel"], &stored["viewed_at"]],
        [&json!("Goa in May"), &json!("https://proposals.example/p/1#start"), &json!("email"), &json!(null)]
    );
}

#[tokio::test]
async fn the_state_of_the_proposal_decides_whether_a_new_itinerary_is_applied() {
    let world = World::shared().await;
    let opened = open_lead(&world).await;
    let named = json!({"lead": opened["leadId"]});
    assert_eq!(new_itinerary(&world, &opened).await, json!(null), "the draft is replaced");
    act(&world, "stage", json!({"lead": opened["leadId"], "stage": "building_proposal"})).await;
    assert_eq!(new_itinerary(&world, &opened).await, "advisor_working");
    act(&world, "stage", json!({"lead": opened["leadId"], "stage": "follow_up"})).await;
    assert_eq!(new_itinerary(&world, &opened).await, json!(null));
    act(&world, "proposal-send", offer(&opened)).await;
    assert_eq!(new_itinerary(&world, &opened).await, "proposal_sent");
    act(&world, "proposal-view", named.clone()).await;
    assert_eq!(new_itinerary(&world, &opened).await, "proposal_sent");
    act(&world, "proposal-discard", named).await;
    assert_eq!(new_itinerary(&world, &opened).await, "no_proposal");
    act(&world, "proposal-send", offer(&opened)).await;
    assert_eq!(new_itinerary(&world, &opened).await, "proposal_sent");
}
