//! Refused requests: recorded for the owner of the key that they name, and nobody else (D35).

mod console;
mod reasons;

use crate::auth::valid;
use serde_json::Value;
use tests::{ApiKey, HttpRequest, World, text, until};

/// An ingest of its own, which can be ended.
async fn world() -> World {
    World::with().join().await
}

/// The refused requests of a tenant.
async fn refusals(world: &World, options: &[&str]) -> Vec<Value> {
    world.connectctl.list(&[&["refusals", "--tenant"], options].concat()).await
}

/// Waits until a tenant has so many refused requests, and returns them.
async fn until_recorded(world: &World, count: usize) -> Vec<Value> {
    let listed = async || refusals(world, &["acme"]).await;
    until(&format!("{count} refused requests are recorded"), listed, |listed| listed.len() >= count).await
}

/// Sends a request that must get this status, and returns the id of the request.
async fn refused(world: &World, request: &HttpRequest, status: u16) -> String {
    world.http().send(request).await.assert_status(status).header("x-request-id").to_owned()
}

fn with_wrong_secret(key: &ApiKey) -> ApiKey {
    ApiKey { secret: "wrong".to_owned(), ..key.clone() }
}

fn of<'l>(listed: &'l [Value], id: &str) -> &'l Value {
    let found = listed.iter().find(|refused| text(&refused["requestId"]) == id);
    found.unwrap_or_else(|| panic!("no {id}: {listed:?}"))
}
