//! Opening, assigning and moving enquiries.

use super::{action, ask_as, done, get, lead, opened, opened_without_trip, patch, trip, trip_route};
use serde_json::{Value, json};
use tests::{World, event, text};

fn fields(value: &Value) -> Vec<&str> {
    let mut fields: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    fields.sort_unstable();
    fields
}

#[tokio::test]
async fn an_enquiry_opens_with_client_number_owner_and_trip() {
    let world = World::start().await;
    let body =
        json!({"email": " Ana@Example.com ", "name": "Ana", "title": "Honeymoon", "destination": "Goa"});
    let answer = done(&world, "open-lead", body).await;
    assert_eq!(fields(&answer), ["clientId", "leadId", "ok", "proposalId", "stage", "tripId"]);
    let shown = lead(&world, &answer).await;
    assert_eq!((&shown["clientId"], &shown["tripId"]), (&answer["clientId"], &answer["tripId"]));
    assert_eq!((&shown["title"], &shown["destination"]), (&json!("Honeymoon"), &json!("Goa")));
    assert_eq!((&shown["stage"], &answer["stage"]), (&json!("inquiry"), &json!("inquiry")));
    assert!(text(&shown["enquiryNumber"]).starts_with("ENQ-"), "{shown}");
    let client = world.client(&answer["clientId"]).await;
    assert_eq!((&client["name"], &client["email"]), (&json!("Ana"), &json!("Ana@Example.com")));
    let [told] = &world.notifications().await[..] else { panic!("one notification") };
    assert_eq!((&told["kind"], &told["to"]), (&json!("lead_assigned"), &shown["owner"]["email"]));
    assert_eq!(trip(&world, &answer).await["proposal"], json!({"status": "draft", "sentAt": null}));
}

#[tokio::test]
async fn whose_enquiry_it_is_is_matched_or_named() {
    let world = World::start().await;
    let known = world.accept(event("contact.identified").email("ana@example.com").name("Ana")).await;
    let matched = done(&world, "open-lead", json!({"email": "ANA@example.com"})).await;
    let named = done(&world, "open-lead", json!({"client": known["clientId"]})).await;
    assert_eq!([&matched["clientId"], &named["clientId"]], [&known["clientId"]; 2]);
    assert_ne!(matched["leadId"], named["leadId"], "each one is new");
    assert_eq!(world.client(&known["clientId"]).await["name"], "Ana");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn someone_on_a_companys_domain_joins_its_account() {
    let world = World::start().await;
    let create =
        ["company", "create", "--tenant", "acme", "--name", "Initech", "--domain", "initech.example"];
    let account = world.connectctl.json(&create).await;
    let answer = done(&world, "open-lead", json!({"email": "ana@initech.example"})).await;
    let client = world.client(&answer["clientId"]).await;
    assert_eq!((&client["account_id"], &client["company"]), (&account["clientId"], &json!("Initech")));
}

#[tokio::test]
async fn an_enquiry_can_open_without_a_trip_and_shows_its_own_brief() {
    let world = World::start().await;
    let body = json!({"email": "ana@example.com", "noTrip": true, "destination": "Goa"});
    let answer = done(&world, "open-lead", body).await;
    assert_eq!(fields(&answer), ["clientId", "leadId", "ok", "stage"]);
    assert_eq!(lead(&world, &answer).await["destination"], "Goa");
    get(&world, &trip_route(&answer)).await.assert_error(409, "trip_not_open");
    patch(&world, &trip_route(&answer), &json!({"title": "x"})).await.assert_error(409, "trip_not_open");
}

#[tokio::test]
async fn an_enquiry_is_assigned_and_the_new_owner_is_told() {
    let world = World::start().await;
    let of = opened(&world).await;
    let (before, trip_before) = (lead(&world, &of).await, trip(&world, &of).await);
    let other = if before["owner"]["email"] == "asha@acme.test" { "ben@acme.test" } else { "asha@acme.test" };
    for _ in 0..2 {
        done(&world, "assign", json!({"lead": of["leadId"], "owner": other.to_uppercase()})).await;
    }
    let (after, trip_after) = (lead(&world, &of).await, trip(&world, &of).await);
    assert_eq!((&after["owner"]["email"], &trip_after["owner"]), (&json!(other), &after["owner"]));
    assert!(text(&after["updatedAt"]) > text(&before["updatedAt"]));
    assert!(text(&trip_after["updatedAt"]) > text(&trip_before["updatedAt"]));
    let told = world.notifications().await;
    assert_eq!(told.len(), 2, "the first owner, and the second once: {told:?}");
    assert_eq!((&told[1]["to"], &told[1]["leadId"]), (&json!(other), &of["leadId"]));
}

#[tokio::test]
async fn an_enquiry_can_be_put_at_every_stage_and_back() {
    let world = World::start().await;
    let of = opened(&world).await;
    let mut last = lead(&world, &of).await;
    for stage in [
        "follow_up",
        "building_proposal",
        "negotiation",
        "proposal_approved",
        "trip_booked",
        "travelled",
        "archived",
        "lost",
        "inquiry",
    ] {
        let body = json!({"lead": of["leadId"], "stage": stage, "reason": "they decided so"});
        assert_eq!(done(&world, "stage", body).await["stage"], stage);
        let now = lead(&world, &of).await;
        assert_eq!((&now["stage"], &trip(&world, &of).await["stage"]), (&json!(stage), &json!(stage)));
        assert!(text(&now["updatedAt"]) > text(&last["updatedAt"]), "{stage}");
        let reason = world.database.rows("SELECT lost_reason FROM leads", &[]).await;
        let expected = if stage == "lost" { json!("they decided so") } else { json!(null) };
        assert_eq!(reason, [json!({"lost_reason": expected})], "{stage}");
        last = now;
    }
}

#[tokio::test]
async fn an_enquiry_that_is_archived_or_travelled_is_closed_to_its_customer() {
    let world = World::start().await;
    for (name, stage) in [("archive", "archived"), ("travelled", "travelled")] {
        let of = opened(&world).await;
        assert_eq!(done(&world, name, json!({"lead": of["leadId"]})).await["stage"], stage);
        let answer = patch(&world, &trip_route(&of), &json!({"message": "Hello"})).await;
        assert_eq!((answer.status, &answer.json()["stage"]), (409, &json!(stage)));
        let next = world.accept(event("traveller.discovery_upserted").email("ana@example.com")).await;
        assert_ne!(next["leadId"], of["leadId"], "it is no open enquiry any more");
        done(&world, "archive", json!({"lead": next["leadId"]})).await;
    }
}

#[tokio::test]
async fn an_action_is_in_the_ledger_and_on_no_timeline() {
    let world = World::start().await;
    let answer = ask_as(&world, "m-1", &action("open-lead", json!({"email": "ana@example.com"}))).await;
    let query = "SELECT event_id, event_type, key_prefix, client_id, lead_id, trip_id FROM event_ledger";
    let expected = json!({
        "event_id": "connect-api:crm:m-1", "event_type": "advisor.open-lead", "key_prefix": "crm",
        "client_id": answer["clientId"], "lead_id": answer["leadId"], "trip_id": answer["tripId"],
    });
    assert_eq!(world.database.rows(query, &[]).await, [expected]);
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 0);
    assert_eq!(world.connectctl.json(&["usage", "--tenant", "acme"]).await["writes"], 0, "and isn't metered");
}

#[tokio::test]
async fn what_opens_in_turn_is_routed_in_turn_whichever_way_it_came() {
    let world = World::start().await;
    let first = opened_without_trip(&world).await;
    let second = world.accept(event("enquiry.submitted").email("ben@example.com")).await;
    let third = opened(&world).await;
    let mut owners = Vec::new();
    for of in [&first, &second, &third] {
        owners.push(lead(&world, of).await["owner"]["email"].clone());
    }
    assert_ne!(owners[0], owners[1]);
    assert_eq!(owners[0], owners[2]);
}
