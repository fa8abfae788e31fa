//! Each query of the dashboard has data when the programs are busy.

use super::{metrics, metrics_in, repository_text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tests::{Behavior, Prometheus, Receiver, TrafficGenerator, World, eventually};

/// Panels without data in ordinary traffic. The other panels must have data without the `or vector(..)` of their query.
const RARE: [&str; 2] = ["Alerts firing", "Spans of traces"];
/// The panel that is empty when all is well.
const FIRING: &str = "Which alerts fire";
/// Longest wait for data.
const MAX_WAIT: Duration = Duration::from_secs(60);

fn dashboard() -> Value {
    serde_json::from_str(&repository_text("ops/grafana/connect.json")).expect("a dashboard in JSON")
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().expect("panels")
}

/// The titles of each row's panels.
fn rows(dashboard: &Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut rows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut row = "";
    for panel in panels(dashboard) {
        let title = tests::text(&panel["title"]);
        if panel["type"] == "row" {
            row = title;
        } else {
            rows.entry(row).or_default().insert(title);
        }
    }
    rows
}

/// The queries of a panel, with what Grafana puts in place of its variables.
fn queries(panel: &Value) -> Vec<String> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    targets.map(|target| tests::text(&target["expr"]).replace("$__rate_interval", "10s")).collect()
}

#[test]
fn every_panel_has_a_place_a_description_and_queries_of_existing_metrics() {
    let (dashboard, known) = (dashboard(), metrics());
    let mut ids = BTreeSet::new();
    let mut covered = BTreeSet::new();
    for panel in panels(&dashboard) {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        let at = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        for (x, y) in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(x < 24 && covered.insert((x, y)), "{} covers another", panel["title"]);
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{panel}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        assert!(!queries(panel).is_empty(), "{panel}");
        for query in queries(panel) {
            assert!(metrics_in(&query).is_subset(&known), "{query}");
            assert!(!query.contains('$') || query.contains("\"$1\""), "a variable that nobody sets: {query}");
        }
    }
    assert_eq!(dashboard["templating"]["list"][0]["name"], "datasource");
    assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource");
}

#[test]
fn the_dashboard_has_its_rows_and_the_runbook_names_existing_panels() {
    let (dashboard, runbook) = (dashboard(), repository_text("ops/RUNBOOK.md"));
    let rows = rows(&dashboard);
    for row in ["Ingest", "Queue", "Worker", "Records", "Webhooks", "Saturation"] {
        assert!(rows[row].len() >= 6, "{row}");
    }
    let mut named = 0;
    for rest in runbook.split("ow *").skip(1) {
        let (row, rest) = rest.split_once('*').expect("the end of a row's name");
        let sentence = rest.split(['.', '?']).next().unwrap_or_default();
        for panel in sentence.split("**").skip(1).step_by(2) {
            assert!(rows[row].contains(panel), "row {row} has no panel {panel}");
            named += 1;
        }
    }
    assert!(named >= 8, "{named} panels named");
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
        let dashboard = dashboard();
        for panel in panels(&dashboard) {
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

#[tokio::test]
async fn a_stopped_worker_is_visible_on_the_panels_that_the_runbook_names() {
    let mut world = World::with().dispatchers(1).start().await;
    let prometheus = Prometheus::start().await;
    prometheus.watch(&world);
    let dashboard = dashboard();
    let shown = async |row: &str, title: &str, labels: &[(&str, &str)], is: fn(f64) -> bool| {
        shows(&prometheus, &panel(&dashboard, row, title), labels, is).await;
    };
    let events = [("queue", "events")];
    during_traffic(&world, async {
        shown("", "Events a second", &[], |rate| rate > 0.0).await;
        shown("Queue", "Consumers", &events, |consumers| consumers > 0.0).await;
    })
    .await;
    world.workers.remove(0).terminate().await;
    during_traffic(&world, async {
        shown("", FIRING, &[("alertname", "ConnectProgramMissing"), ("job", "connect-worker")], |_| true)
            .await;
        shown("", FIRING, &[("alertname", "ConnectNoConsumers"), ("queue", "events")], |_| true).await;
        shown("", "Waiting now", &[], |waiting| waiting > 0.0).await;
        shown("", "Events a second", &[], |rate| rate == 0.0).await;
        shown("", "Oldest outbound event", &[], |age| age >= 0.0).await;
        shown("Queue", "Messages waiting", &events, |waiting| waiting > 0.0).await;
        shown("Queue", "Consumers", &events, |consumers| consumers == 0.0).await;
        shown("Saturation", "Programs up", &[], |up| up == 0.0).await;
    })
    .await;
    world.dispatchers.remove(0).terminate().await;
    shown("", "Oldest outbound event", &[], |age| age < 0.0).await;
}

/// Runs `looking` while events are sent.
async fn during_traffic(world: &World, looking: impl Future<Output = ()>) {
    let traffic = TrafficGenerator::of(world);
    tokio::select! {
        () = traffic.events(Duration::from_millis(50)) => {}
        () = looking => {}
    }
}

/// The panel of that title in a row, or above the rows.
fn panel(dashboard: &Value, row: &str, title: &str) -> Value {
    let mut current = "";
    for panel in panels(dashboard) {
        let name = tests::text(&panel["title"]);
        match panel["type"] == "row" {
            true => current = name,
            false if current == row && name == title => return panel.clone(),
            false => {}
        }
    }
    panic!("no panel {title} in row {row:?}");
}

/// Waits until one of the panel's queries gives a value of these labels that `is` as expected.
async fn shows(prometheus: &Prometheus, panel: &Value, labels: &[(&str, &str)], is: fn(f64) -> bool) {
    eventually(&format!("{} {labels:?}", panel["title"]), MAX_WAIT, async || {
        let mut seen = Vec::new();
        for query in queries(panel) {
            seen.extend(prometheus.query(&query).await);
        }
        let fits = |series: &tests::Series| {
            labels.iter().all(|(name, value)| series.labels.get(*name).is_some_and(|label| label == value))
        };
        if seen.iter().any(|series| fits(series) && is(series.value)) {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        }
    })
    .await;
}

async fn has_data(prometheus: &Prometheus, title: &str, query: &str) {
    eventually(&format!("{title}: {query} has data"), MAX_WAIT, async || {
        let series = prometheus.query(query).await;
        if series.iter().any(|series| series.value.is_finite()) { Ok(()) } else { Err(format!("{series:?}")) }
    })
    .await;
}
