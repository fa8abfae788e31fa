//! A fault is injected, and an alert fires in a real Prometheus with the project's rules; the fault is repaired, and the
//! alert resolves. Time in the rules passes forty times as fast.

mod console;
mod queues;
mod refusals;
mod servers;
mod webhooks;

use serde_json::Value;
use tests::{Event, MAX_WAIT, Prometheus, World, WorldBuilder, event, eventually};

/// A world with programs of every kind and a Prometheus that scrapes them. No alert fires.
async fn watched(builder: WorldBuilder) -> (World, Prometheus) {
    let world = builder.dispatchers(1).start().await;
    let prometheus = watch(&world).await;
    (world, prometheus)
}

/// A Prometheus that scrapes all programs of a world. No alert fires.
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
    eventually(query, MAX_WAIT, async || match prometheus.query(query).await.len() {
        1 => Ok(()),
        found => Err(format!("{found} results")),
    })
    .await;
}

/// Repeats `act` until an alert fires.
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
