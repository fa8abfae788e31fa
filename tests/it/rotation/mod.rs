//! Rotating the master key, and the secrets of API keys (D5, D33), while the programs run.

mod canary;
mod key_secrets;
mod last_use;
mod resumed;
mod running;
mod values;

use serde_json::{Value, json};
use tests::{Connectctl, MASTER_KEY, World};

/// The master key that replaces [`MASTER_KEY`].
const NEW_MASTER_KEY: &str = "YW5vdGhlciBtYXN0ZXIga2V5IG9mIDMyIGJ5dGVzISE=";

const CURRENT: &str = "CONNECT_MASTER_KEY";
const PREVIOUS: &str = "CONNECT_MASTER_KEY_PREVIOUS";

/// `connectctl` of a world, after the swap: with the new key, and the old one as the previous key.
fn swapped(world: &World) -> Connectctl {
    world.connectctl.without(CURRENT).and(CURRENT, NEW_MASTER_KEY).and(PREVIOUS, MASTER_KEY)
}

/// `connectctl` of a world with the new key only.
fn with_new_key(world: &World) -> Connectctl {
    world.connectctl.without(CURRENT).and(CURRENT, NEW_MASTER_KEY)
}

/// Programs that start from now on have the new key, and the old one as the previous key.
fn swap(world: &mut World) {
    world.set(CURRENT, NEW_MASTER_KEY);
    world.set(PREVIOUS, MASTER_KEY);
}

/// Programs that start from now on have the new key only.
fn remove_previous(world: &mut World) {
    world.set(PREVIOUS, "");
}

/// The number of values of each kind of key, as `connectctl secrets list` prints them.
async fn counts(connectctl: &Connectctl) -> Value {
    let counts = connectctl.list(&["secrets", "list"]).await;
    let count = |of: &str| {
        let matching = counts.iter().filter(|count| count["key"] == of);
        matching.map(|count| count["values"].as_u64().expect("a number")).sum::<u64>()
    };
    json!({"current": count("current"), "previous": count("previous")})
}
