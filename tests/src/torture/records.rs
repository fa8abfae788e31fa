//! Callers of the records API. Each operation is the life of a client of its own.

use super::caller::{Caller, Retries};
use super::oracle::WriteKind;
use crate::fuzz::random::Random;
use crate::http::HttpResponse;
use crate::key::{ApiKey, RECORDS};
use crate::world::text;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// Creates, changes and reads records until the run is over.
pub(super) async fn run(mut caller: Caller<'_>) {
    let mut operation = 0;
    while !caller.run.load_ended() {
        // An operation ends early if one of its steps is not confirmed.
        live(&mut caller, operation).await;
        operation += 1;
    }
}

/// The steps of one operation.
struct Life<'c, 'r> {
    caller: &'c mut Caller<'r>,
    random: Random,
    key: &'r ApiKey,
    tenant: usize,
    name: String,
}

async fn live(caller: &mut Caller<'_>, operation: u64) -> Option<()> {
    let mut random = caller.random(operation);
    let tenant = random.below(caller.stack.keys.len());
    let name = format!("{}-{}-{operation}", caller.run.seed, caller.number);
    let key = &caller.stack.keys[tenant];
    let mut life = Life { caller, random, key, tenant, name };
    let client = life.create_client().await?;
    let lead = life.create_lead(&client).await?;
    life.post_message(&lead).await?;
    life.rename(&client).await?;
    Some(())
}

impl Life<'_, '_> {
    async fn create_client(&mut self) -> Option<String> {
        let email = format!("r{}@records.example", self.name);
        let body = json!({"email": email, "name": "Before", "externalId": format!("x-{}", self.name)});
        let id = self.post("/clients", WriteKind::Client, &email, &body).await?;
        self.caller.run.oracle().people.insert((self.tenant, email), id.clone());
        Some(id)
    }

    async fn create_lead(&mut self, client: &str) -> Option<String> {
        let external = format!("l-{}", self.name);
        let body = json!({"clientId": client, "externalId": external, "destination": "Goa"});
        self.post("/leads", WriteKind::Lead, &external, &body).await
    }

    /// A POST with an `Idempotency-Key` of its own. Returns the id of the record, if it is confirmed.
    async fn post(&mut self, route: &str, kind: WriteKind, name: &str, body: &Value) -> Option<String> {
        self.note(kind, name, None);
        let retries = if self.random.once_in(12) { Retries::Never } else { Retries::UntilConfirmed };
        let (key, target, body) = (self.key, format!("{RECORDS}{route}"), body.to_string());
        let idempotency_key = format!("{route}-{name}");
        let request = || key.records("POST", &target, body.clone()).with("idempotency-key", &idempotency_key);
        let response = self.caller.send(&mut self.random, retries, request).await?;
        let data = self.data(&format!("POST {route} of {name}"), &response, 201)?;
        let id = text(&data["id"]).to_owned();
        self.note(kind, name, Some(&id));
        if let Some(number) = data["enquiryNumber"].as_str() {
            self.caller.run.oracle().enquiry_numbers.insert(id.clone(), number.to_owned());
        }
        Some(id)
    }

    /// Posts a message to the lead's thread. A PATCH has no key that would make a retry safe, so it is not retried.
    async fn post_message(&mut self, lead: &str) -> Option<()> {
        let message = format!("message {}", self.name);
        let route = format!("/leads/{lead}/trip");
        self.patch(&route, WriteKind::Message, &message, &json!({"message": message})).await.map(drop)
    }

    /// Changes the client's name, and reads it.
    async fn rename(&mut self, client: &str) -> Option<()> {
        let name = format!("After {}", self.name);
        let route = format!("/clients/{client}");
        self.patch(&route, WriteKind::ClientName, &name, &json!({"name": name})).await?;
        let (key, target) = (self.key, format!("{RECORDS}{route}"));
        let request = || key.records("GET", &target, "");
        let response = self.caller.send(&mut self.random, Retries::UntilConfirmed, request).await?;
        let data = self.data(&format!("GET {route}"), &response, 200)?;
        if data["name"] != *name {
            let what = format!("a read after the confirmed change to {name} shows {data}");
            self.caller.run.oracle().add_violation(what);
        }
        Some(())
    }

    async fn patch(&mut self, route: &str, kind: WriteKind, name: &str, body: &Value) -> Option<Value> {
        self.note(kind, name, None);
        let (key, target, body) = (self.key, format!("{RECORDS}{route}"), body.to_string());
        let request = || key.records("PATCH", &target, body.clone());
        let response = self.caller.send(&mut self.random, Retries::Never, request).await?;
        let data = self.data(&format!("PATCH {route}"), &response, 200)?;
        self.note(kind, name, Some(""));
        Some(data)
    }

    fn note(&self, kind: WriteKind, name: &str, confirmed: Option<&str>) {
        if confirmed.is_some() {
            self.caller.run.totals.writes.fetch_add(1, Ordering::Relaxed);
        }
        self.caller.run.oracle().note_write(self.tenant, kind, name, confirmed);
    }

    /// The record of a response, which must have that status.
    fn data(&self, what: &str, response: &HttpResponse, status: u16) -> Option<Value> {
        if response.status != status {
            self.caller.unexpected(what, response);
            return None;
        }
        Some(response.json()["data"].clone())
    }
}
