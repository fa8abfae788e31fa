//! Bodies are read strictly on every route (specification: Records routes; D21, D21a, D22). `common/src/record/tests` has a table of
//! each field's faults.

use super::{client_route, data, get, lead_route, new_client, new_lead, record, records_target, trip_route};
use serde_json::json;
use tests::{World, text};

/// Sends a body that must be invalid, and checks that the message names every one of these places, which have blanks between them.
async fn assert_invalid(world: &World, method: &str, route: &str, body: &str, places: &str) {
    let request =
        world.key.records(method, &records_target(route), body.to_owned()).with("idempotency-key", "k");
    let response = world.http().send(&request).await;
    assert_eq!(response.status, 400, "{method} {route} {body}: {response:?}");
    let message = response.assert_error(400, "invalid_request");
    for place in places.split_whitespace() {
        assert!(message.contains(&format!("{place}: ")), "{method} {route} {body}: no {place} in: {message}");
    }
}

#[tokio::test]
async fn every_write_rejects_wrong_fields_and_bodies_and_changes_nothing() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    let client = client_route(&json!({"id": lead["clientId"]}));
    let before = [client.clone(), lead_route(&lead), trip_route(&lead)];
    let shown = async || {
        let mut shown = Vec::new();
        for route in &before {
            shown.push(record(&get(&world, route).await, 200));
        }
        shown
    };
    let as_before = shown().await;
    let long = "x".repeat(10_001);
    let of_client =
        json!({"name": 1, "email": "x", "nickname": "y", "travelers": [{"type": "baby"}, {"seat": 1}]});
    let client_places = "name email nickname travelers[0].name travelers[0].type travelers[1].seat";
    let of_brief = json!({"travelDates": {"startDate": "2027-02-29"}, "party": {"adults": "2"}, "message": long,
        "budget": {"amount": -1, "currency": "XYZ"}, "guestNationality": null, "itinerary": null});
    let brief_places =
        "travelDates.startDate party.adults message budget.amount budget.currency guestNationality itinerary";
    let of_patch = json!({"stage": null, "owner": "asha", "followUp": "true", "destination": "Goa"});
    let routes = [
        ("POST", "/clients", of_client.clone(), client_places),
        ("PATCH", &client, of_client, client_places),
        ("POST", "/leads", of_brief.clone(), brief_places),
        ("PATCH", &before[2], of_brief, brief_places),
        ("PATCH", &before[1], of_patch, "stage owner followUp destination"),
    ];
    let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
    for (method, route, body, places) in routes {
        assert_invalid(&world, method, route, &body.to_string(), places).await;
        for body in
            ["", "{", "[]", "null", "\"x\"", "{\"title\":1e999}", "{} {}", "{\"a\":\"\\ud800\"}", &nested]
        {
            assert_invalid(&world, method, route, body, "").await;
        }
    }
    assert_invalid(&world, "POST", "/clients", r#"{"email":"a@b.cd","email":"b@b.cd"}"#, "email").await;
    assert_eq!(shown().await, as_before);
    assert!(world.inbox(&lead["id"]).await.is_empty());
    for table in ["clients", "leads"] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {table}")).await, 1, "{table}");
    }
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
