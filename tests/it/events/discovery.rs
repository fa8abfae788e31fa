//! `traveller.discovery_upserted` (D15a).

use super::{ana, ids, set_stage, warnings};
use serde_json::{Value, json};
use tests::{World, event};

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
    assert_eq!(
        (&lead["stage"], &lead["destination"]),
        (&json!("inquiry"), &json!(null)),
        "no part of the brief"
    );
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
    assert_eq!(
        record["profile"],
        json!({"constraints": {"diet": "vegan"}, "styleDefaults": {"pace": "slow"}})
    );
    assert_eq!(record["essence"], "A slow traveler.");
}

#[tokio::test]
async fn a_later_event_updates_the_record_it_names() {
    let world = World::shared().await;
    let first = world
        .accept(ana(KIND).payload(json!({"discovery": {"pax": 2, "tripNotes": "first"}, "essence": "one"})))
        .await;
    let id = discovery_id(&first).clone();
    set_stage(&world, &first["leadId"], "lost").await;
    let payload =
        json!({"hosTripDiscoveryId": id, "discovery": {"pax": 5}, "profilePatch": {"constraints": "none"}});
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
    let bo =
        world.accept(event(KIND).email("bo@example.com").payload(json!({"discovery": {"pax": 2}}))).await;
    for id in
        [discovery_id(&bo).clone(), json!("no id"), json!(5), json!("0190a5b2-0000-7000-8000-000000000001")]
    {
        let result =
            world.accept(ana(KIND).payload(json!({"hosTripDiscoveryId": id, "discovery": {"pax": 9}}))).await;
        assert_eq!(discovery_id(&result), discovery_id(&own), "that of the lead");
        assert_eq!(warnings(&result), ["traveller_discovery_field_rejected:hosTripDiscoveryId"], "{id}");
    }
    let [record] = &world.discovery(&bo["clientId"]).await[..] else { panic!("one record") };
    assert_eq!(record["discovery"], json!({"pax": 2}));
}

#[tokio::test]
async fn accepts_the_event_when_the_discovery_cannot_be_stored() {
    let world = World::start().await;
    world
        .database
        .execute("ALTER TABLE discoveries ADD CHECK (discovery::text NOT LIKE '%unstorable%')")
        .await;
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
