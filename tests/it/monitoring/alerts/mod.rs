//! Something breaks, a real Prometheus with the project's rules says so; it is mended, and Prometheus stops saying so.
//! The rules' time passes forty times as fast.

mod intake;
mod queues;
mod servers;
mod webhooks;

use serde_json::Value;
use tests::{Event, PATIENCE, Prometheus, World, WorldBuilder, event, eventually};

/// Programs of every kind that are watched, with nothing to complain of.
async fn watched(builder: WorldBuilder) -> (World, Prometheus) {
    let world = builder.dispatchers(1).start().await;
    let prometheus = watch(&world).await;
    (world, prometheus)
}

/// A Prometheus that sees all programs of a world, with nothing to complain of.
async fn watch(world: &World) -> Prometheus {
    let prometheus = Prometheus::start().await;
    prometheus.watch(world);
    prometheus.until_quiet().await;
    prometheus
}

fn contact() -> Event {
    event("contact.identified").email("ana@example.com")
}

/// Waits until a query has one result.
async fn until_true(prometheus: &Prometheus, query: &str) {
    eventually(query, PATIENCE, async || match prometheus.query(query).await.len() {
        1 => Ok(()),
        found => Err(format!("{found} results")),
    })
    .await;
}

/// Goes on doing something until an alert fires.
async fn until_fires(alert: impl Future<Output = Value>, mut act: impl AsyncFnMut()) {
    let acting = async {
        loop {
            act().await;
        }
    };
    tokio::select! {
        _ = alert => {}
        () = acting => {}
    }
}
