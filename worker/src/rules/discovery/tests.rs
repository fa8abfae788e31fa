use crate::rules::testing::World;
use common::event::{EventResult, EventStatus};
use common::model::DiscoveryId;
use serde_json::{Value, json};

fn send(world: &mut World, payload: Value) -> EventResult {
    let result =
        world.send("traveller.discovery_upserted", json!({"email": "ana@example.com", "name": "Ana"}), payload);
    assert_eq!(result.status, EventStatus::Accepted);
    result
}

fn id(result: &EventResult) -> DiscoveryId {
    result.traveller_discovery.expect("a discovery id").discovery_id
}

fn stored(world: &World, result: &EventResult) -> Value {
    world.state.discoveries.get(&id(result)).unwrap().discovery.clone()
}

fn profile(world: &World, result: &EventResult) -> (Value, Option<String>) {
    let profile = world.state.profiles.get(&result.client_id.unwrap()).unwrap();
    (profile.profile.clone(), profile.essence.clone())
}

fn rejected(fields: &[&str]) -> Vec<String> {
    fields.iter().map(|field| format!("traveller_discovery_field_rejected:{field}")).collect()
}

/// The fields' types and limits are tested against their schemas, in `tests/it/openapi/bodies.rs`.
#[test]
fn valid_fields_are_stored_as_sent() {
    for (field, value) in [
        ("destinationInterest", json!([])),
        ("dateRange", json!({"start": "2027-05-01"})),
        ("pax", json!({"adults": 2, "pets": 1})),
        ("tripNotes", json!("")),
    ] {
        let mut world = World::new();
        let result = send(&mut world, json!({"discovery": {field: value}}));
        assert_eq!((stored(&world, &result), result.warnings), (json!({field: value}), vec![]));
    }
}

#[test]
fn invalid_fields_are_dropped_with_a_warning() {
    let mut world = World::new();
    let payload = json!({
        "discovery": {"destinationInterest": ["Goa", null], "dateRange": {"start": "2027-05-09", "end": "2027-05-01"},
            "pax": {"adults": -1}, "tripNotes": 5, "tripNotes2": 1},
        "profilePatch": {"constraints": ["ok", 5], "styleDefaults": ["slow"]},
    });
    let result = send(&mut world, payload);
    let fields = ["destinationInterest", "dateRange", "pax", "tripNotes", "constraints", "styleDefaults"];
    assert_eq!((result.warnings.clone(), stored(&world, &result)), (rejected(&fields), json!({})));
    assert!(world.state.profiles.values().next().is_none());
}

#[test]
fn parts_that_are_not_objects_are_warned_of_in_order() {
    let mut world = World::new();
    let payload = json!({"essence": 5, "profilePatch": "x", "discovery": [], "hosTripDiscoveryId": "?"});
    let result = send(&mut world, payload);
    assert_eq!(result.warnings, rejected(&["discovery", "profilePatch", "essence", "hosTripDiscoveryId"]));
    assert_eq!(stored(&world, &result), json!({}));
    let long = send(&mut world, json!({"essence": "x".repeat(10_001), "discovery": {"pax": "", "dateRange": 5}}));
    assert_eq!(long.warnings, rejected(&["dateRange", "pax", "essence"]));
}

#[test]
fn fields_merge_one_by_one_null_keeps_and_empty_text_clears_them() {
    let mut world = World::new();
    send(
        &mut world,
        json!({"discovery": {"pax": 2, "tripNotes": "sea"}, "essence": "A",
            "profilePatch": {"constraints": "a", "styleDefaults": {"x": 1}}}),
    );
    let payload = json!({"discovery": {"pax": 3, "tripNotes": null}, "essence": null,
        "profilePatch": {"styleDefaults": {"y": 2}}});
    let result = send(&mut world, payload);
    assert_eq!(stored(&world, &result), json!({"pax": 3, "tripNotes": "sea"}));
    let expected = (json!({"constraints": "a", "styleDefaults": {"y": 2}}), Some("A".to_owned()));
    assert_eq!(profile(&world, &result), expected);
    assert!(result.warnings.is_empty());
    let emptied = send(&mut world, json!({"discovery": {"tripNotes": ""}, "essence": ""}));
    assert_eq!(stored(&world, &emptied), json!({"pax": 3, "tripNotes": ""}));
    assert_eq!(profile(&world, &emptied).1.as_deref(), Some(""));
}

#[test]
fn the_version_of_a_record_increases_only_with_a_change() {
    let mut world = World::new();
    let payload = json!({"discovery": {"pax": 2}, "essence": "A"});
    let first = send(&mut world, payload.clone());
    let versions = |world: &World| {
        let profile = world.state.profiles.get(&first.client_id.unwrap()).unwrap();
        (world.state.discoveries.get(&id(&first)).unwrap().updated_at, profile.updated_at)
    };
    let before = versions(&world);
    send(&mut world, payload);
    assert_eq!(versions(&world), before);
    send(&mut world, json!({"discovery": {"pax": 3}, "essence": "B"}));
    assert!(versions(&world).0 > before.0 && versions(&world).1 > before.1);
}

#[test]
fn with_discovery_disabled_and_in_a_retry_everything_else_is_applied() {
    for (is_enabled, is_retry, warning) in
        [(false, false, "traveller_discovery_not_enabled"), (true, true, "traveller_discovery_upsert_failed")]
    {
        let mut world = World::new();
        (world.state.tenant.discovery_enabled, world.skip_discovery) = (is_enabled, is_retry);
        let result = send(&mut world, json!({"discovery": {"pax": -1}, "essence": "A"}));
        assert_eq!((result.warnings, result.traveller_discovery), (vec![warning.to_owned()], None));
        assert!(result.client_id.is_some() && result.lead_id.is_some() && result.trip_id.is_some());
        assert_eq!((world.state.discoveries.values().count(), world.state.profiles.values().count()), (0, 0));
        assert_eq!(world.state.timeline.len(), 1);
    }
}
