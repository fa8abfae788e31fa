//! The ten records routes (specification: Records routes), and the events route.

use super::records_target;
use serde_json::{Value, json};
use tests::event::batch;
use tests::{ApiKey, HttpRequest, event, text};
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

/// The requests that write.
pub(crate) fn every_write(lead: &Value) -> Vec<Route> {
    every_route(lead).into_iter().filter(Route::is_write).collect()
}

/// The requests that read.
pub(crate) fn every_read(lead: &Value) -> Vec<Route> {
    every_route(lead).into_iter().filter(|route| !route.is_write()).collect()
}
