//! `enquiry.submitted`, `traveller.discovery_upserted` (D15a), which member gets a new lead (D16), and the timeline
//! (D14).

use super::{ana, ids, outbox, set_stage, submit_enquiry, warnings};
use serde_json::{Value, json};
use tests::{UNREACHED_RECEIVER, World, event, text};

#[tokio::test]
async fn opens_a_lead_at_stage_inquiry_with_a_trip_and_a_draft_proposal() {
    let world = World::shared().await;
    let result = submit_enquiry(&world, json!({})).await;
    assert!(ids(&result).iter().all(Value::is_string), "{result}");
    let lead = world.lead(&result["leadId"]).await;
    assert_eq!((&lead["stage"], &lead["followUp"]), (&json!("inquiry"), &json!(false)));
    assert_eq!((&lead["clientId"], &lead["tripId"]), (&result["clientId"], &result["tripId"]));
    let proposals = "SELECT p.status, t.lead_id::text FROM proposals p JOIN trips t USING (tenant_id, trip_id)";
    let proposals = world.database.rows(proposals, &[]).await;
    assert_eq!(proposals, [json!({"status": "draft", "lead_id": result["leadId"]})]);
    assert_eq!(world.timeline(&result["clientId"]).await.len(), 1);
}

#[tokio::test]
async fn enquiry_numbers_use_the_tenants_prefix() {
    let world = World::shared().await;
    world.database.execute("UPDATE tenants SET enquiry_prefix = 'ZTA'").await;
    let lead = world.lead(&submit_enquiry(&world, json!({})).await["leadId"]).await;
    assert!(text(&lead["enquiryNumber"]).starts_with("ZTA-"), "{lead}");
    assert!(text(&lead["enquiryNumber"]).ends_with("-000001"), "{lead}");
}

const KIND: &str = "traveller.discovery_upserted";

fn discovery_id(result: &Value) -> &Value {
    &result["travellerDiscovery"]["discoveryId"]
}

#[tokio::test]
async fn opens_a_lead_or_reuses_the_open_one() {
    let world = World::shared().await;
    let goa = json!({"discovery": {"destinationInterest": "Goa"}});
    let opened = world.accept(ana(KIND).payload(goa)).await;
    assert!(ids(&opened).iter().all(Value::is_string), "{opened}");
    let lead = world.lead(&opened["leadId"]).await;
    let expected = (&json!("inquiry"), &json!(null));
    assert_eq!((&lead["stage"], &lead["destination"]), expected, "no part of the brief");
    let again = world.accept(ana(KIND).payload(json!({"discovery": {"pax": 3}}))).await;
    assert_eq!((ids(&again), discovery_id(&again)), (ids(&opened), discovery_id(&opened)));
    set_stage(&world, &opened["leadId"], "lost").await;
    let reopened = world.accept(ana(KIND).payload(json!({"discovery": {"pax": 4}}))).await;
    assert_ne!(reopened["leadId"], opened["leadId"]);
    assert_ne!(discovery_id(&reopened), discovery_id(&opened));
    let existing = world.accept(event(KIND).email("bo@example.com")).await;
    assert_ne!(existing["leadId"], reopened["leadId"]);
}

#[tokio::test]
async fn stores_discovery_profile_and_essence_and_ignores_unknown_keys() {
    let world = World::shared().await;
    let payload = json!({
        "discovery": {"destinationInterest": ["Goa", "Kerala"], "dateRange": {"start": "2027-05-01", "end": "2027-05-09"},
            "pax": 2, "tripNotes": "No early mornings.", "favouriteColour": "blue"},
        "profilePatch": {"constraints": {"diet": "vegan"}, "styleDefaults": {"pace": "slow"}, "shoeSize": 41},
        "essence": "A slow traveler.", "mood": "good",
    });
    let result = world.accept(ana(KIND).payload(payload.clone())).await;
    assert!(warnings(&result).is_empty(), "{result}");
    let [record] = &world.discovery(&result["clientId"]).await[..] else { panic!("one record") };
    assert_eq!(&record["discoveryId"], discovery_id(&result));
    let mut discovery = payload["discovery"].clone();
    discovery.as_object_mut().expect("an object").remove("favouriteColour");
    assert_eq!(record["discovery"], discovery);
    let expected = json!({"constraints": {"diet": "vegan"}, "styleDefaults": {"pace": "slow"}});
    assert_eq!(record["profile"], expected);
    assert_eq!(record["essence"], "A slow traveler.");
}

#[tokio::test]
async fn a_later_event_updates_the_record_it_names() {
    let world = World::shared().await;
    let first =
        world.accept(ana(KIND).payload(json!({"discovery": {"pax": 2, "tripNotes": "first"}, "essence": "one"}))).await;
    let id = discovery_id(&first).clone();
    set_stage(&world, &first["leadId"], "lost").await;
    let payload = json!({"hosTripDiscoveryId": id, "discovery": {"pax": 5}, "profilePatch": {"constraints": "none"}});
    let second = world.accept(ana(KIND).payload(payload)).await;
    assert_eq!(discovery_id(&second), &id);
    let [record] = &world.discovery(&first["clientId"]).await[..] else { panic!("one record") };
    assert_eq!(record["discovery"], json!({"pax": 5, "tripNotes": "first"}));
    assert_eq!((&record["profile"], &record["essence"]), (&json!({"constraints": "none"}), &json!("one")));
}

#[tokio::test]
async fn does_not_change_a_record_of_another_client() {
    let world = World::shared().await;
    let own = world.accept(ana(KIND).payload(json!({"hosTripDiscoveryId": ""}))).await;
    assert!(warnings(&own).is_empty(), "{own}");
    let bo = world.accept(event(KIND).email("bo@example.com").payload(json!({"discovery": {"pax": 2}}))).await;
    for id in [discovery_id(&bo).clone(), json!("no id"), json!(5), json!("0190a5b2-0000-7000-8000-000000000001")] {
        let result = world.accept(ana(KIND).payload(json!({"hosTripDiscoveryId": id, "discovery": {"pax": 9}}))).await;
        assert_eq!(discovery_id(&result), discovery_id(&own), "that of the lead");
        assert_eq!(warnings(&result), ["traveller_discovery_field_rejected:hosTripDiscoveryId"], "{id}");
    }
    let [record] = &world.discovery(&bo["clientId"]).await[..] else { panic!("one record") };
    assert_eq!(record["discovery"], json!({"pax": 2}));
}

#[tokio::test]
async fn accepts_the_event_when_the_discovery_cannot_be_stored() {
    let world = World::start().await;
    let alter = "ALTER TABLE discoveries ADD CHECK (discovery::text NOT LIKE '%unstorable%')";
    world.database.execute(alter).await;
    let events = [
        event(KIND).email("bo@example.com").payload(json!({"discovery": {"tripNotes": "fine"}})),
        ana(KIND).payload(json!({"discovery": {"tripNotes": "unstorable"}})),
        event(KIND).email("bo@example.com").payload(json!({"discovery": {"pax": 2}})),
    ];
    let results = world.results(&events).await;
    assert!(results.iter().all(|result| result["status"] == "accepted"), "{results:?}");
    assert_eq!(warnings(&results[1]), ["traveller_discovery_upsert_failed"]);
    assert!(ids(&results[1]).iter().all(Value::is_string), "{results:?}");
    assert_eq!(world.timeline(&results[1]["clientId"]).await.len(), 1);
    assert!(warnings(&results[0]).is_empty() && warnings(&results[2]).is_empty(), "{results:?}");
    let [record] = &world.discovery(&results[0]["clientId"]).await[..] else { panic!("one record") };
    assert_eq!(record["discovery"], json!({"tripNotes": "fine", "pax": 2}));
}

#[tokio::test]
async fn switching_discovery_on_or_off_takes_effect_with_the_next_event() {
    let world = World::shared().await;
    for discovery in ["false", "true", "false"] {
        world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--discovery", discovery]).await;
        let result = world.accept(ana(KIND).payload(json!({"discovery": {"pax": 2}}))).await;
        assert_eq!(result.get("travellerDiscovery").is_some(), discovery == "true", "{discovery}: {result}");
    }
}

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

#[tokio::test]
async fn every_accepted_event_appends_one_entry_with_its_payload_in_order() {
    let world = World::shared().await;
    let opened = submit_enquiry(&world, json!({"title": "First"})).await;
    world.accept(ana("booking.completed").payload(json!({"bookingRef": "BR-1", "amount": 5, "currency": "INR"}))).await;
    let before = world.timeline(&opened["clientId"]).await.len();
    let kinds: Vec<&str> = common::event::InboundType::ALL.iter().map(|kind| kind.as_str()).collect();
    let events: Vec<_> = kinds
        .iter()
        .enumerate()
        .map(|(i, kind)| {
            let payload = json!({"n": i, "bookingRef": "BR-1", "appliedRupees": 0, "asOf": "2026-05-01T10:00:00Z", "deep": {"z": 1.50, "a": [null]}});
            ana(kind).with("occurredAt", json!(format!("2026-05-01T10:00:{i:02}.250Z"))).payload(payload)
        })
        .collect();
    let results = world.results(&events).await;
    let entries = world.timeline(&opened["clientId"]).await.split_off(before);
    assert_eq!(entries.len(), kinds.len());
    for (((entry, event), result), kind) in entries.iter().zip(&events).zip(&results).zip(&kinds) {
        let sent = event.to_json();
        assert_eq!(result["status"], "accepted", "{kind}: {result}");
        assert_eq!((&entry["eventId"], &entry["eventType"]), (&sent["eventId"], &json!(kind)));
        assert_eq!((&entry["occurredAt"], &entry["origin"]), (&sent["occurredAt"], &sent["origin"]));
        assert_eq!(entry["payload"], sent["payload"], "{kind}");
    }
}

#[tokio::test]
async fn stores_a_payload_byte_for_byte() {
    let world = World::shared().await;
    let sent = r#"{ "b":1.50,  "a" : [1e2, "\u00e9\/"], "b" : 0.1000000000000000055, "z":null }"#;
    let body = String::from_utf8(tests::event::batch(&[ana("quote.requested").payload(json!("PAYLOAD"))]));
    let body = body.expect("text").replace("\"PAYLOAD\"", sent);
    let response = world.http().send(&world.key.events(body)).await;
    assert_eq!(response.json()["accepted"], 1, "{response:?}");
    let stored = world.database.rows("SELECT payload::text AS payload FROM timeline", &[]).await;
    assert_eq!(stored, [json!({"payload": sent})]);
}
