//! Proposals: sent, viewed, discarded, and what a customer's new itinerary is answered then (D20).

use super::{done, lead, opened, patch, trip, trip_route};
use serde_json::{Value, json};
use tests::{World, text};

fn offer(of: &Value) -> Value {
    let url = "https://proposals.example/p/1#start";
    json!({"lead": of["leadId"], "title": "Goa in May", "url": url, "channel": "email"})
}

/// Sends a new itinerary and gives why it wasn't applied, null when it was.
async fn new_itinerary(world: &World, of: &Value) -> Value {
    let itinerary = json!({"title": "New", "days": []});
    let answer = patch(world, &trip_route(of), &json!({"itinerary": itinerary})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let data = answer.json()["data"].clone();
    let reason = data.get("itineraryNotAppliedReason").cloned().unwrap_or_default();
    assert_eq!(data["itineraryApplied"], json!(reason.is_null()), "{data}");
    reason
}

/// The stored proposal.
async fn stored(world: &World) -> Value {
    let query = "SELECT proposal_id, status, title, url, channel, sent_at, viewed_at FROM proposals";
    let mut rows = world.database.rows(query, &[]).await;
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

#[tokio::test]
async fn a_proposal_that_is_sent_is_shown_so_and_keeps_title_url_and_channel() {
    let world = World::start().await;
    let of = opened(&world).await;
    let (before, trip_before) = (lead(&world, &of).await, trip(&world, &of).await);
    let answer = done(&world, "proposal-send", offer(&of)).await;
    assert_eq!((&answer["proposalId"], &answer["stage"]), (&of["proposalId"], &json!("inquiry")));
    let (after, trip_after) = (lead(&world, &of).await, trip(&world, &of).await);
    assert_eq!(trip_after["proposal"]["status"], "sent");
    assert_eq!(trip_after["proposal"]["sentAt"], trip_after["updatedAt"], "it was the last that happened");
    assert!(text(&after["updatedAt"]) > text(&before["updatedAt"]));
    assert!(text(&trip_after["updatedAt"]) > text(&trip_before["updatedAt"]));
    let stored = stored(&world).await;
    assert_eq!(stored["proposal_id"], of["proposalId"]);
    assert_eq!(
        [&stored["title"], &stored["url"], &stored["channel"], &stored["viewed_at"]],
        [&json!("Goa in May"), &json!("https://proposals.example/p/1#start"), &json!("email"), &json!(null)]
    );
}

#[tokio::test]
async fn a_proposal_that_the_traveller_opened_is_shown_so() {
    let world = World::start().await;
    let of = opened(&world).await;
    done(&world, "proposal-send", offer(&of)).await;
    let sent = trip(&world, &of).await;
    done(&world, "proposal-view", json!({"lead": of["leadId"]})).await;
    let viewed = trip(&world, &of).await;
    assert_eq!(viewed["proposal"], json!({"status": "viewed", "sentAt": sent["proposal"]["sentAt"]}));
    assert!(text(&viewed["updatedAt"]) > text(&sent["updatedAt"]));
    assert_ne!(stored(&world).await["viewed_at"], json!(null));
    done(&world, "proposal-view", json!({"lead": of["leadId"]})).await;
    assert_eq!(trip(&world, &of).await, viewed, "once is enough");
}

#[tokio::test]
async fn a_proposal_can_be_sent_again_also_after_it_was_discarded() {
    let world = World::start().await;
    let of = opened(&world).await;
    done(&world, "proposal-send", offer(&of)).await;
    done(&world, "proposal-view", json!({"lead": of["leadId"]})).await;
    let first = trip(&world, &of).await["proposal"]["sentAt"].clone();
    let mut again = offer(&of);
    again["title"] = json!("Kerala");
    done(&world, "proposal-send", again).await;
    let second = trip(&world, &of).await["proposal"].clone();
    assert_eq!(second["status"], "sent");
    assert!(text(&second["sentAt"]) > text(&first));
    let kept = stored(&world).await;
    assert_eq!((&kept["title"], &kept["viewed_at"]), (&json!("Kerala"), &json!(null)));
    done(&world, "proposal-discard", json!({"lead": of["leadId"]})).await;
    assert_eq!(trip(&world, &of).await["proposal"]["status"], "discarded");
    done(&world, "proposal-send", offer(&of)).await;
    assert_eq!(trip(&world, &of).await["proposal"]["status"], "sent");
}

#[tokio::test]
async fn a_new_itinerary_is_answered_by_what_became_of_the_proposal() {
    let world = World::start().await;
    let of = opened(&world).await;
    let named = json!({"lead": of["leadId"]});
    assert_eq!(new_itinerary(&world, &of).await, json!(null), "the draft is replaced");
    done(&world, "stage", json!({"lead": of["leadId"], "stage": "building_proposal"})).await;
    assert_eq!(new_itinerary(&world, &of).await, "advisor_working");
    done(&world, "stage", json!({"lead": of["leadId"], "stage": "follow_up"})).await;
    assert_eq!(new_itinerary(&world, &of).await, json!(null));
    done(&world, "proposal-send", offer(&of)).await;
    assert_eq!(new_itinerary(&world, &of).await, "proposal_sent");
    done(&world, "proposal-view", named.clone()).await;
    assert_eq!(new_itinerary(&world, &of).await, "proposal_sent");
    done(&world, "proposal-discard", named).await;
    assert_eq!(new_itinerary(&world, &of).await, "no_proposal");
    done(&world, "proposal-send", offer(&of)).await;
    assert_eq!(new_itinerary(&world, &of).await, "proposal_sent");
}

#[tokio::test]
async fn a_draft_that_is_discarded_leaves_no_proposal() {
    let world = World::start().await;
    let of = opened(&world).await;
    done(&world, "proposal-discard", json!({"lead": of["leadId"]})).await;
    assert_eq!(trip(&world, &of).await["proposal"], json!({"status": "discarded", "sentAt": null}));
    assert_eq!(new_itinerary(&world, &of).await, "no_proposal");
}
