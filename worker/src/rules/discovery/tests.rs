use crate::rules::Cause;
use crate::rules::stage::move_to;
use crate::rules::testing::World;
use common::event::{EventResult, EventStatus};
use common::model::{DiscoveryId, Stage};
use serde_json::{Value, json};

fn send(world: &mut World, payload: Value) -> EventResult {
    let result = world.send(
        "traveller.discovery_upserted",
        json!({"email": "ana@example.com", "name": "Ana"}),
        payload,
    );
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

fn close(world: &mut World, result: &EventResult) {
    let cause = Cause::crm(world.now);
    let lead = result.lead_id.unwrap();
    world.run(|state, ctx| move_to(state, lead, Stage::Lost, None, &cause, ctx)).unwrap();
}

#[test]
fn opens_a_lead_with_a_trip_if_none_is_open() {
    let mut world = World::new();
    let result = send(&mut world, json!({"discovery": {"destinationInterest": "Goa", "pax": 2}}));
    let lead = world.lead(result.lead_id.unwrap());
    assert_eq!((lead.stage, lead.title.as_str()), (Stage::Inquiry, "Enquiry from Ana"));
    let trip = world.state.trip_of(lead.id).unwrap();
    // A discovery is not part of the brief, which stays empty.
    assert_eq!((Some(trip.id), &trip.brief), (result.trip_id, &common::model::Brief::default()));
    assert_eq!(world.state.outbox.len(), 1);
}

#[test]
fn reuses_the_open_lead_and_its_record() {
    let mut world = World::new();
    let opened = world.send("enquiry.submitted", json!({"email": "ana@example.com"}), json!({}));
    let first = send(&mut world, json!({"discovery": {"pax": 2}}));
    let second = send(&mut world, json!({"discovery": {"tripNotes": "sea"}}));
    assert_eq!((first.lead_id, first.trip_id), (opened.lead_id, opened.trip_id));
    assert_eq!((second.lead_id, id(&second)), (opened.lead_id, id(&first)));
    assert_eq!(stored(&world, &second), json!({"pax": 2, "tripNotes": "sea"}));
    close(&mut world, &second);
    let third = send(&mut world, json!({}));
    assert_ne!(third.lead_id, opened.lead_id);
    assert_ne!(id(&third), id(&first));
}

#[test]
fn known_fields_are_stored_as_sent_and_unknown_ones_ignored() {
    let mut world = World::new();
    let dates = json!({"start": "2027-05-01", "end": "2027-05-09"});
    let discovery = json!({"destinationInterest": ["Goa", " Kerala "], "dateRange": dates,
        "pax": {"adults": 2, "pets": 1}, "tripNotes": " by the sea "});
    let patch = json!({"constraints": {"diet": ["vegan"]}, "styleDefaults": {"pace": "slow"}});
    let mut sent = (discovery.clone(), patch.clone());
    sent.0["budget"] = json!(5);
    sent.1["secret"] = json!(5);
    let result =
        send(&mut world, json!({"discovery": sent.0, "profilePatch": sent.1, "essence": "Calm.", "mood": 1}));
    assert_eq!(result.warnings, Vec::<String>::new());
    assert_eq!(stored(&world, &result), discovery);
    assert_eq!(profile(&world, &result), (patch, Some("Calm.".to_owned())));
}

#[test]
fn every_form_of_a_known_field_is_accepted() {
    for (field, value) in [
        ("destinationInterest", json!("Goa")),
        ("destinationInterest", json!([])),
        ("destinationInterest", json!(vec!["Goa"; 50])),
        ("dateRange", json!("some time in May")),
        ("dateRange", json!({"startDate": "2027-05-01", "endDate": "2027-05-01"})),
        ("dateRange", json!({"start": "2027-05-01"})),
        ("pax", json!(0)),
        ("pax", json!(1000)),
        ("tripNotes", json!("x".repeat(10_000))),
        ("tripNotes", json!("")),
    ] {
        let mut world = World::new();
        let result = send(&mut world, json!({"discovery": {field: value}}));
        assert_eq!((stored(&world, &result), result.warnings), (json!({field: value}), vec![]));
    }
    for constraints in [json!("no flights"), json!(["no flights", "vegan"]), json!({})] {
        let mut world = World::new();
        let result = send(&mut world, json!({"profilePatch": {"constraints": constraints}}));
        assert_eq!(profile(&world, &result), (json!({"constraints": constraints}), None));
    }
}

#[test]
fn invalid_fields_are_dropped_with_a_warning() {
    for (field, value) in [
        ("destinationInterest", json!(7)),
        ("destinationInterest", json!(" ")),
        ("destinationInterest", json!(["Goa", ""])),
        ("destinationInterest", json!(["Goa", null])),
        ("destinationInterest", json!(vec!["Goa"; 51])),
        ("destinationInterest", json!("x".repeat(501))),
        ("dateRange", json!({"start": "2027-05-09", "end": "2027-05-01"})),
        ("dateRange", json!({"start": "2027-02-30"})),
        ("dateRange", json!("x".repeat(201))),
        ("dateRange", json!(["2027-05-01"])),
        ("pax", json!(-1)),
        ("pax", json!(1001)),
        ("pax", json!("two")),
        ("pax", json!({"adults": -1})),
        ("tripNotes", json!("x".repeat(10_001))),
        ("tripNotes", json!(5)),
    ] {
        let mut world = World::new();
        let result = send(&mut world, json!({"discovery": {field: value, "tripNotes2": 1}}));
        assert_eq!(
            (result.warnings.clone(), stored(&world, &result)),
            (rejected(&[field]), json!({})),
            "{value}"
        );
    }
    let large = json!({"a": "x".repeat(70_000)});
    for (field, value) in [
        ("constraints", json!(5)),
        ("constraints", json!("x".repeat(2001))),
        ("constraints", json!(["ok", 5])),
        ("constraints", large.clone()),
        ("styleDefaults", json!("slow")),
        ("styleDefaults", json!(["slow"])),
        ("styleDefaults", large),
    ] {
        let mut world = World::new();
        let result = send(&mut world, json!({"profilePatch": {field: value}}));
        assert_eq!(result.warnings, rejected(&[field]), "{field}");
        assert!(world.state.profiles.values().next().is_none());
    }
}

#[test]
fn parts_that_are_not_objects_are_warned_of_in_order() {
    let mut world = World::new();
    let payload = json!({"essence": 5, "profilePatch": "x", "discovery": [], "hosTripDiscoveryId": "?"});
    let result = send(&mut world, payload);
    assert_eq!(result.warnings, rejected(&["discovery", "profilePatch", "essence", "hosTripDiscoveryId"]));
    assert_eq!(stored(&world, &result), json!({}));
    let long =
        send(&mut world, json!({"essence": "x".repeat(10_001), "discovery": {"pax": "", "dateRange": 5}}));
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
    assert_eq!(
        profile(&world, &result),
        (json!({"constraints": "a", "styleDefaults": {"y": 2}}), Some("A".to_owned()))
    );
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
fn a_record_named_by_the_caller_is_updated_even_if_its_lead_is_closed() {
    let mut world = World::new();
    let first = send(&mut world, json!({"discovery": {"pax": 2}}));
    close(&mut world, &first);
    let payload = json!({"hosTripDiscoveryId": id(&first), "discovery": {"tripNotes": "sea"}});
    let second = send(&mut world, payload);
    assert_eq!((id(&second), second.warnings.len()), (id(&first), 0));
    assert_ne!(second.lead_id, first.lead_id);
    assert_eq!(stored(&world, &first), json!({"pax": 2, "tripNotes": "sea"}));
    assert_eq!(world.state.discoveries.values().count(), 1);
}

#[test]
fn another_clients_record_gives_a_warning_and_the_leads_record_is_used() {
    let mut world = World::new();
    let bobs =
        world.send("traveller.discovery_upserted", json!({"phone": "1"}), json!({"discovery": {"pax": 1}}));
    let anas = send(&mut world, json!({}));
    for named in [json!(id(&bobs)), json!(DiscoveryId(uuid::Uuid::max())), json!("nonsense"), json!(5)] {
        let result = send(&mut world, json!({"hosTripDiscoveryId": named, "discovery": {"pax": 9}}));
        assert_eq!(result.warnings, rejected(&["hosTripDiscoveryId"]));
        assert_eq!(id(&result), id(&anas));
    }
    assert_eq!(stored(&world, &bobs), json!({"pax": 1}));
    assert!(send(&mut world, json!({"hosTripDiscoveryId": ""})).warnings.is_empty());
}

#[test]
fn with_discovery_disabled_everything_else_is_applied() {
    let mut world = World::new();
    world.state.tenant.discovery_enabled = false;
    let result = send(&mut world, json!({"discovery": {"pax": -1}, "essence": "A"}));
    assert_eq!(result.warnings, ["traveller_discovery_not_enabled"]);
    assert_eq!(result.traveller_discovery, None);
    assert!(result.client_id.is_some() && result.lead_id.is_some() && result.trip_id.is_some());
    assert!(
        world.state.discoveries.values().next().is_none() && world.state.profiles.values().next().is_none()
    );
    assert_eq!(world.state.timeline.len(), 1);
}

#[test]
fn a_retry_leaves_the_discovery_part_out() {
    let mut world = World::new();
    world.skip_discovery = true;
    let result = send(&mut world, json!({"discovery": {"pax": -1}, "essence": "A"}));
    assert_eq!(result.warnings, ["traveller_discovery_upsert_failed"]);
    assert_eq!((result.traveller_discovery, result.lead_id.is_some()), (None, true));
    assert!(
        world.state.discoveries.values().next().is_none() && world.state.profiles.values().next().is_none()
    );
}
