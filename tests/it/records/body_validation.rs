//! Bodies are read strictly (specification: Records routes; D21, D21a, D22).

use super::{
    client_route, data, get, lead_route, new_client, new_lead, post, record, records_target, trip_route,
};
use serde_json::{Value, json};
use tests::{World, text};

/// Sends a body that must be invalid, and checks that the message names every one of these places.
async fn assert_invalid(world: &World, method: &str, route: &str, body: &str, places: &[&str]) {
    let request =
        world.key.records(method, &records_target(route), body.to_owned()).with("idempotency-key", "k");
    let response = world.http().send(&request).await;
    assert_eq!(response.status, 400, "{method} {route} {body}: {response:?}");
    let message = response.assert_error(400, "invalid_request");
    for place in places {
        assert!(message.contains(&format!("{place}: ")), "{method} {route} {body}: no {place} in: {message}");
    }
}

#[tokio::test]
async fn rejects_unknown_and_mistyped_fields_of_a_client_body() {
    let world = World::shared().await;
    let client = new_client(&world, json!({"email": "ana@example.com"})).await;
    let route = client_route(&client);
    let too_many = vec![json!({"name": "Bo"}); 51];
    for (field, value, place) in [
        ("nickname", json!("A"), "nickname"),
        ("id", json!("x"), "id"),
        ("clientType", json!("company"), "clientType"),
        ("name", json!(null), "name"),
        ("name", json!(1), "name"),
        ("name", json!(" "), "name"),
        ("name", json!("x".repeat(201)), "name"),
        ("name", json!("a\u{0}b"), "name"),
        ("email", json!(null), "email"),
        ("email", json!(""), "email"),
        ("email", json!("ana"), "email"),
        ("email", json!(format!("{}@example.com", "a".repeat(310))), "email"),
        ("phone", json!(333), "phone"),
        ("phone", json!("none"), "phone"),
        ("phone", json!("1".repeat(41)), "phone"),
        ("company", json!("x".repeat(501)), "company"),
        ("externalId", json!("x".repeat(201)), "externalId"),
        ("externalId", json!([]), "externalId"),
        ("marketingOptIn", json!("true"), "marketingOptIn"),
        ("marketingOptIn", json!(1), "marketingOptIn"),
        ("travelers", json!({}), "travelers"),
        ("travelers", json!(too_many), "travelers"),
        ("travelers", json!([null]), "travelers[0]"),
        ("travelers", json!([{}]), "travelers[0].name"),
        ("travelers", json!([{"name": "Bo"}, {"name": "Cy", "type": "baby"}]), "travelers[1].type"),
        ("travelers", json!([{"name": "Bo", "age": "7"}]), "travelers[0].age"),
        ("travelers", json!([{"name": "Bo", "age": 7.5}]), "travelers[0].age"),
        ("travelers", json!([{"name": "Bo", "age": -1}]), "travelers[0].age"),
        ("travelers", json!([{"name": "Bo", "age": null}]), "travelers[0].age"),
        ("travelers", json!([{"name": "Bo", "email": "bo"}]), "travelers[0].email"),
        ("travelers", json!([{"name": "Bo", "seat": 1}]), "travelers[0].seat"),
    ] {
        let places: &[&str] = if value.to_string().contains("\\u0000") { &[] } else { &[place] };
        let mut body = json!({"email": "bo@example.com"});
        body[field] = value.clone();
        assert_invalid(&world, "POST", "/clients", &body.to_string(), places).await;
        assert_invalid(&world, "PATCH", &route, &json!({field: value}).to_string(), places).await;
    }
    assert_eq!(record(&get(&world, &route).await, 200), client);
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

/// Faults of what a lead body and a trip-change body have in common.
fn brief_faults() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("title", json!(null), "title"),
        ("title", json!("x".repeat(201)), "title"),
        ("destination", json!(["Goa"]), "destination"),
        ("destination", json!("x".repeat(501)), "destination"),
        ("travelDates", json!("2027-05-01"), "travelDates"),
        ("travelDates", json!({"startDate": "2027-02-29"}), "travelDates.startDate"),
        ("travelDates", json!({"startDate": "2027-5-1"}), "travelDates.startDate"),
        ("travelDates", json!({"endDate": "2027-05-01T00:00:00Z"}), "travelDates.endDate"),
        ("travelDates", json!({"startDate": "2027-05-02", "endDate": "2027-05-01"}), "travelDates"),
        ("travelDates", json!({"start": "2027-05-02"}), "travelDates.start"),
        ("party", json!({"adults": "2"}), "party.adults"),
        ("party", json!({"adults": -1}), "party.adults"),
        ("party", json!({"rooms": 1.5}), "party.rooms"),
        ("party", json!({"children": null}), "party.children"),
        ("party", json!({"childAges": [3, "4"]}), "party.childAges[1]"),
        ("party", json!({"infants": 1}), "party.infants"),
        ("budget", json!({"amount": 1000}), "budget.currency"),
        ("budget", json!({"currency": "INR"}), "budget.amount"),
        ("budget", json!({"amount": 1, "currency": "INR", "notes": "x"}), "budget"),
        ("budget", json!({"amount": "1000", "currency": "INR"}), "budget.amount"),
        ("budget", json!({"amount": -1, "currency": "INR"}), "budget.amount"),
        ("budget", json!({"amount": 1, "currency": "XYZ"}), "budget.currency"),
        ("budget", json!({"notes": "x".repeat(2_001)}), "budget.notes"),
        ("budget", json!(1000), "budget"),
        ("guestNationality", json!("XX"), "guestNationality"),
        ("guestNationality", json!("IND"), "guestNationality"),
        ("guestNationality", json!(null), "guestNationality"),
        ("itinerary", json!(null), "itinerary"),
        ("itinerary", json!({"title": "x", "days": [], "cost": 1}), "itinerary.cost"),
        ("message", json!(1), "message"),
        ("message", json!("x".repeat(10_001)), "message"),
    ]
}

#[tokio::test]
async fn rejects_unknown_and_mistyped_fields_of_a_lead_body() {
    let world = World::shared().await;
    let mut faults = brief_faults();
    faults.extend([
        ("stage", json!("inquiry"), "stage"),
        ("contact", json!("ana"), "contact"),
        ("contact", json!({"email": "ana"}), "contact.email"),
        ("contact", json!({"email": "ana@example.com", "age": 3}), "contact.age"),
        ("contact", json!({"email": null}), "contact.email"),
        ("clientId", json!(7), "clientId"),
        ("externalId", json!("x".repeat(201)), "externalId"),
        ("attribution", json!({"source": 1}), "attribution.source"),
        ("attribution", json!({"gclid": "x"}), "attribution.gclid"),
        ("changeSummary", json!("x"), "changeSummary"),
    ]);
    for (field, value, place) in faults {
        let mut body = json!({"contact": {"email": "ana@example.com"}});
        body[field] = value;
        assert_invalid(&world, "POST", "/leads", &body.to_string(), &[place]).await;
    }
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 0);
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
}

#[tokio::test]
async fn rejects_unknown_and_mistyped_fields_of_lead_and_trip_patches() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    let trip = record(&get(&world, &trip_route(&lead)).await, 200);
    let mut faults = brief_faults();
    faults.extend([
        ("changeSummary", json!("x".repeat(501)), "changeSummary"),
        ("stage", json!("lost"), "stage"),
        ("externalId", json!("x"), "externalId"),
        ("attribution", json!({}), "attribution"),
    ]);
    for (field, value, place) in faults {
        let body = json!({field: value}).to_string();
        assert_invalid(&world, "PATCH", &trip_route(&lead), &body, &[place]).await;
    }
    for (field, value) in [
        ("stage", json!(null)),
        ("stage", json!(1)),
        ("reason", json!(null)),
        ("owner", json!("asha")),
        ("owner", json!({"email": "asha@acme.test"})),
        ("followUp", json!("true")),
        ("followUp", json!(null)),
        ("title", json!(7)),
        ("destination", json!("Goa")),
        ("clientId", json!("x")),
    ] {
        let body = json!({field: value}).to_string();
        assert_invalid(&world, "PATCH", &lead_route(&lead), &body, &[field]).await;
    }
    assert_eq!(record(&get(&world, &trip_route(&lead)).await, 200), trip);
    assert_eq!(record(&get(&world, &lead_route(&lead)).await, 200), lead);
    assert!(world.inbox(&lead["id"]).await.is_empty());
}

#[tokio::test]
async fn names_all_of_several_faults() {
    let world = World::shared().await;
    let body = json!({
        "name": 1, "email": "x", "nickname": "y", "marketingOptIn": "no",
        "travelers": [{"type": "baby", "age": "7"}, {"name": "Bo", "seat": 1}],
    });
    let places = [
        "name",
        "email",
        "nickname",
        "marketingOptIn",
        "travelers[0].name",
        "travelers[0].type",
        "travelers[0].age",
        "travelers[1].seat",
    ];
    assert_invalid(&world, "POST", "/clients", &body.to_string(), &places).await;
}

#[tokio::test]
async fn rejects_bodies_that_are_not_json_objects_on_every_write() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    let client = client_route(&json!({"id": lead["clientId"]}));
    let routes = [
        ("POST", "/clients".to_owned()),
        ("POST", "/leads".to_owned()),
        ("PATCH", client),
        ("PATCH", lead_route(&lead)),
        ("PATCH", trip_route(&lead)),
    ];
    let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
    for (method, route) in routes {
        for body in
            ["", "{", "[]", "null", "\"x\"", "{\"title\":1e999}", "{} {}", "{\"a\":\"\\ud800\"}", &nested]
        {
            assert_invalid(&world, method, &route, body, &[]).await;
        }
    }
    assert_invalid(&world, "POST", "/clients", r#"{"email":"a@b.cd","email":"b@b.cd"}"#, &["email"]).await;
}

#[tokio::test]
async fn accepts_values_at_their_limits() {
    let world = World::shared().await;
    let travelers = vec![json!({"name": "é".repeat(200), "age": 150}); 50];
    let client = new_client(
        &world,
        json!({
            "email": "ana@example.com", "name": "é".repeat(200), "company": "é".repeat(500),
            "externalId": "é".repeat(200), "phone": "1".repeat(40), "travelers": travelers,
        }),
    )
    .await;
    assert_eq!(client["travelers"].as_array().map(Vec::len), Some(50));
    assert_eq!(text(&client["name"]).chars().count(), 200);
    let lead = new_lead(
        &world,
        json!({
            "title": "é".repeat(200), "destination": "é".repeat(500), "message": "é".repeat(10_000),
            "travelDates": {"startDate": "2028-02-29", "endDate": "2028-02-29"},
            "budget": {"notes": "é".repeat(2_000)}, "party": {"adults": 0},
        }),
    )
    .await;
    assert_eq!(data(&get(&world, &lead_route(&lead)).await, 200), lead);
}

#[tokio::test]
async fn rejects_unsupported_methods_and_lists_the_allowed_ones() {
    let world = World::shared().await;
    let id = "0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";
    for (route, methods, others) in [
        ("/clients".to_owned(), "GET, POST", ["PUT", "PATCH", "DELETE"]),
        ("/leads".to_owned(), "GET, POST", ["PUT", "PATCH", "DELETE"]),
        (format!("/clients/{id}"), "GET, PATCH", ["PUT", "POST", "DELETE"]),
        (format!("/leads/{id}"), "GET, PATCH", ["PUT", "POST", "DELETE"]),
        (format!("/leads/{id}/trip"), "GET, PATCH", ["PUT", "POST", "DELETE"]),
    ] {
        for method in others {
            let response = world.http().send(&world.key.records(method, &records_target(&route), "{}")).await;
            response.assert_error(405, "method_not_allowed");
            assert_eq!(response.header("allow"), methods, "{method} {route}");
        }
    }
    for route in ["/trips", "/clients/x/y", "/leads/x/trip/y", "/leads/x/trips"] {
        get(&world, route).await.assert_error(404, "not_found");
    }
    post(&world, "/bookings", json!({})).await.assert_error(404, "not_found");
}
