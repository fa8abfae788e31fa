//! Outbound webhooks: from what causes them to what a receiver gets, on the real programs.

mod delivery;
mod faults;
mod isolation;

use serde_json::Value;
use std::time::Duration;
use tests::{Authority, PATIENCE, Receiver, World, WorldBuilder, eventually, text};

/// A world with a dispatcher, and a receiver with TLS that it trusts.
struct Outbound {
    world: World,
    receiver: Receiver,
    authority: Authority,
}

/// A subscription as it was made.
struct Subscription {
    id: String,
    secret: String,
}

impl Outbound {
    /// With a schedule of moments: attempts are made at 0, 100, 200, 400 .. milliseconds after the one before.
    async fn start() -> Self {
        Self::of(World::with()).await
    }

    async fn of(builder: WorldBuilder) -> Self {
        let authority = Authority::new();
        let receiver = Receiver::https(&authority);
        let file = authority.file().to_str().expect("a path in Unicode").to_owned();
        let world = builder
            .dispatchers(1)
            .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
            .set("CONNECT_WEBHOOK_CA_FILE", &file)
            .set("CONNECT_WEBHOOK_BACKOFF_BASE", "100ms")
            .set("CONNECT_WEBHOOK_BACKOFF_CAP", "10s")
            .start()
            .await;
        Self { world, receiver, authority }
    }

    /// Subscribes the receiver at `path`, with more options of `subscription create`.
    async fn subscribe(&self, path: &str, options: &[&str]) -> Subscription {
        self.subscribe_url(&self.receiver.url_by_name(path), options).await
    }

    async fn subscribe_url(&self, url: &str, options: &[&str]) -> Subscription {
        let create = ["subscription", "create", "--tenant", "acme", "--url", url];
        let made = self.world.connectctl.json(&[&create, options].concat()).await;
        Subscription { id: text(&made["id"]).to_owned(), secret: text(&made["secret"]).to_owned() }
    }

    /// Deliveries as `connectctl` lists them.
    async fn deliveries(&self) -> Vec<Value> {
        let listed = self.world.connectctl.json(&["delivery", "list", "--tenant", "acme"]).await;
        listed.as_array().expect("an array").clone()
    }

    /// Rows of deliveries by state.
    async fn count(&self, state: &str) -> i64 {
        let query = format!("SELECT count(*) FROM deliveries WHERE state = '{state}'");
        self.world.database.count(&query).await
    }

    /// Waits until that many deliveries are in a state.
    async fn until(&self, state: &str, count: i64) {
        self.until_within(PATIENCE, state, count).await;
    }

    async fn until_within(&self, within: Duration, state: &str, count: i64) {
        eventually(&format!("{count} deliveries are {state}"), within, async || {
            let found = self.count(state).await;
            if found == count { Ok(()) } else { Err(format!("{found}")) }
        })
        .await;
    }
}
