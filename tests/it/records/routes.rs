//! The ten records routes (specification: Records routes), and the events route. Bodies are read strictly on each (D21,
//! D21a, D22); `common/src/record/tests` has a table of each field's faults.

use super::{
    client_route, data, get, joined_with_lead, lead_route, new_client, new_lead, record, records_target, trip_route,
};
use serde_json::{Value, json};
use tests::{ApiKey, HttpRequest, World, batch, event, text};
use uuid::Uuid;

/// A request to one of the routes, which succeeds.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// Below the base, with its query.
    pub(crate) path: String,
    pub(crate) body: String,
}

impl Route {
    pub(crate) fn is_write(&self) -> bool {
        self.method != "GET"
    }

    /// Whether it is the events route, which takes signatures of the scheme `v1`.
    pub(super) fn is_events(&self) -> bool {
        self.path == "/events"
    }

    /// The status of success.
    pub(crate) fn success(&self) -> u16 {
        if self.method == "POST" && !self.is_events() { 201 } else { 200 }
    }

    /// The request, a POST with an `Idempotency-Key` of its own.
    pub(crate) fn signed(&self, key: &ApiKey) -> HttpRequest {
        self.signed_as(self.is_events(), None, key)
    }

    /// [`signed`](Self::signed) at `t`, seconds since the epoch.
    pub(crate) fn signed_at(&self, t: i64, key: &ApiKey) -> HttpRequest {
        self.signed_as(self.is_events(), Some(t), key)
    }

    /// The same request with a signature of the other scheme.
    pub(super) fn signed_otherwise(&self, key: &ApiKey) -> HttpRequest {
        self.signed_as(!self.is_events(), None, key)
    }

    fn signed_as(&self, is_v1: bool, t: Option<i64>, key: &ApiKey) -> HttpRequest {
        let (target, body) = (records_target(&self.path), self.body.clone());
        let request = match (is_v1, t) {
            (true, None) => key.events(body),
            (true, Some(t)) => key.events_at(t, body),
            (false, None) => key.records(self.method, &target, body),
            (false, Some(t)) => key.records_at(t, self.method, &target, body),
        };
        let request = HttpRequest { method: self.method.to_owned(), target, ..request };
        let is_post = self.method == "POST";
        if is_post { request.with("idempotency-key", Uuid::now_v7().to_string()) } else { request }
    }
}

/// A batch of one new client.
pub(super) fn events_route() -> Route {
    let body = batch(&[event("contact.identified").external_id(&Uuid::now_v7().to_string())]);
    let body = String::from_utf8(body).expect("text");
    Route { method: "POST", path: "/events".to_owned(), body }
}

/// A request to each of the ten routes, about an existing lead. Each write changes something, whenever this is called.
pub(crate) fn every_route(lead: &Value) -> Vec<Route> {
    let (id, client) = (text(&lead["id"]), text(&lead["clientId"]));
    let new = || Uuid::now_v7().to_string();
    let (get, post, patch) = ("GET", "POST", "PATCH");
    [
        (post, "/clients".to_owned(), json!({"externalId": new()})),
        (get, format!("/clients?externalId={}", new()), Value::Null),
        (get, format!("/clients/{client}"), Value::Null),
        (patch, format!("/clients/{client}"), json!({"name": new()})),
        (post, "/leads".to_owned(), json!({"clientId": client, "title": new()})),
        (get, format!("/leads?externalId={}", new()), Value::Null),
        (get, format!("/leads/{id}"), Value::Null),
        (patch, format!("/leads/{id}"), json!({"title": new()})),
        (get, format!("/leads/{id}/trip"), Value::Null),
        (patch, format!("/leads/{id}/trip"), json!({"title": new()})),
    ]
    .map(|(method, path, body)| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        Route { method, path, body }
    })
    .to_vec()
}

pub(crate) fn every_write(lead: &Value) -> Vec<Route> {
    every_route(lead).into_iter().filter(Route::is_write).collect()
}

pub(crate) fn every_read(lead: &Value) -> Vec<Route> {
    every_route(lead).into_iter().filter(|route| !route.is_write()).collect()
}

/// Sends a body that must be invalid, and checks that the message names every one of these places, which have blanks between them.
async fn assert_invalid(world: &World, method: &str, route: &str, body: &str, places: &str) {
    let request = world.key.records(method, &records_target(route), body.to_owned()).with("idempotency-key", "k");
    let response = world.http().send(&request).await;
    assert_eq!(response.status, 400, "{method} {route} {body}: {response:?}");
    let message = response.assert_error(400, "invalid_request");
    for place in places.split_whitespace() {
        assert!(message.contains(&format!("{place}: ")), "{method} {route} {body}: no {place} in: {message}");
    }
}

#[tokio::test]
async fn every_write_rejects_wrong_fields_and_bodies_and_changes_nothing() {
    let (world, lead) = joined_with_lead().await;
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
    let of_client = json!({"name": 1, "email": "x", "nickname": "y", "travelers": [{"type": "baby"}, {"seat": 1}]});
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
        for body in ["", "{", "[]", "null", "\"x\"", "{\"title\":1e999}", "{} {}", "{\"a\":\"\\ud800\"}", &nested] {
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
