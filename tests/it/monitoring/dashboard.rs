//! Each query of the dashboard has data when the programs are busy.

use super::repository_text;
use serde_json::Value;
use std::time::Duration;
use tests::{Behavior, Prometheus, Receiver, TrafficGenerator, World, eventually};

/// Panels without data in ordinary traffic. The other panels must have data without the `or vector(..)` of their query.
const RARE: [&str; 2] = ["Alerts firing", "Spans of traces"];
/// The panel that is empty when all is well.
const FIRING: &str = "Which alerts fire";
/// Longest wait for data.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The queries of a panel, with what Grafana puts in place of its variables.
fn queries(panel: &Value) -> Vec<String> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    targets.map(|target| tests::text(&target["expr"]).replace("$__rate_interval", "10s")).collect()
}

#[tokio::test]
async fn every_panels_query_has_data_when_the_programs_are_busy() {
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let builder = builder.set("CONNECT_WEBHOOK_BACKOFF_BASE", "100ms").set("CONNECT_WEBHOOK_ATTEMPTS", "3");
    let builder = builder.set("CONNECT_RETENTION_DELIVERIES", "30d");
    let world = builder.start().await;
    let receiver = Receiver::http();
    receiver.respond("/down", Behavior::status(503));
    for path in ["/hooks", "/down"] {
        let url = receiver.url(path);
        world.subscribe(&url).await;
    }
    let prometheus = Prometheus::start().await;
    prometheus.watch(&world);

    let (traffic, pause) = (TrafficGenerator::of(&world), Duration::from_millis(50));
    let callers = async {
        futures_util::join!(traffic.events(pause), traffic.records(pause), traffic.advisors(4 * pause));
    };
    let looking = async {
        let dashboard: Value =
            serde_json::from_str(&repository_text("ops/grafana/connect.json")).expect("a dashboard in JSON");
        for panel in dashboard["panels"].as_array().expect("panels") {
            let title = tests::text(&panel["title"]);
            for query in queries(panel).iter().filter(|_| title != FIRING) {
                let query = if RARE.contains(&title) { query } else { without_alternative(query) };
                has_data(&prometheus, title, query).await;
            }
        }
    };
    tokio::select! {
        () = callers => {}
        () = looking => {}
    }
}

/// A query without the value that it gives where there is no data.
fn without_alternative(query: &str) -> &str {
    query.split_once(" or vector(").map_or(query, |(query, _)| query)
}

async fn has_data(prometheus: &Prometheus, title: &str, query: &str) {
    eventually(&format!("{title}: {query} has data"), MAX_WAIT, async || {
        let series = prometheus.query(query).await;
        if series.iter().any(|series| series.value.is_finite()) { Ok(()) } else { Err(format!("{series:?}")) }
    })
    .await;
}
