//! The ten records routes (specification: Records routes).

use super::records_target;
use serde_json::{Value, json};
use tests::{ApiKey, HttpRequest, text};
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

    /// The status of success.
    pub(crate) fn success(&self) -> u16 {
        if self.method == "POST" { 201 } else { 200 }
    }

    /// The request, a POST with an `Idempotency-Key` of its own.
    pub(crate) fn signed(&self, key: &ApiKey) -> HttpRequest {
        self.with_idempotency_key(key.records(self.method, &records_target(&self.path), self.body.clone()))
    }

    /// [`signed`](Self::signed) at `t`, seconds since the epoch.
    pub(crate) fn signed_at(&self, t: i64, key: &ApiKey) -> HttpRequest {
        self.with_idempotency_key(key.records_at(
            t,
            self.method,
            &records_target(&self.path),
            self.body.clone(),
        ))
    }

    /// The same request with the signature of the events route.
    pub(crate) fn signed_v1(&self, key: &ApiKey) -> HttpRequest {
        let mut request = key.events(self.body.clone());
        request.method = self.method.to_owned();
        request.target = records_target(&self.path);
        self.with_idempotency_key(request)
    }

    fn with_idempotency_key(&self, request: HttpRequest) -> HttpRequest {
        let is_post = self.method == "POST";
        if is_post { request.with("idempotency-key", Uuid::now_v7().to_string()) } else { request }
    }
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
