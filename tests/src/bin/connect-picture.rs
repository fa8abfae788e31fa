//! The run that the README's picture shows: traffic of every kind, a worker that is stopped for a while, and a
//! Prometheus that scrapes the programs.
//!
//! `connect-picture [MINUTES]` prints the SVG after a run of that length, nine if none is given. For the middle third of
//! it the worker is stopped.

use std::process::Command;
use std::time::Duration;
use tests::{Behavior, Prometheus, Receiver, TrafficGenerator, World};
use tokio::time::sleep;

const MINUTES: u64 = 9;
/// Interval of Prometheus' scrapes.
const INTERVAL: &str = "2s";
/// Callers of the events route, and of the records API.
const CALLERS: (usize, usize) = (24, 3);

#[tokio::main]
async fn main() {
    let mut world = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").start().await;
    let receiver = Receiver::http();
    receiver.respond("/down", Behavior::status(503));
    // One receiver fails all the time, as usual in production.
    for (path, events) in [("/hooks", "lead.assigned,lead.stage_changed"), ("/down", "lead.stage_changed")] {
        let url = receiver.url(path);
        let create = ["subscription", "create", "--tenant", "acme", "--url", &url, "--events", events];
        world.connectctl.json(&create).await;
    }
    let prometheus = Prometheus::in_real_time(INTERVAL).await;
    let minutes = std::env::args().nth(1).map_or(MINUTES, |given| given.parse().expect("minutes"));
    let third = Duration::from_secs(minutes * 60 / 3);
    prometheus.watch(&world);
    send_for(&world, third).await;
    world.workers.remove(0).terminate().await;
    send_for(&world, third).await;
    world.add_worker().await;
    prometheus.watch(&world);
    send_for(&world, third).await;

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../ops/grafana/picture/draw.py");
    let url = format!("http://{}", prometheus.address());
    let drawn = Command::new(script).args(["--prometheus", &url, "--minutes", &minutes.to_string()]).status();
    assert!(drawn.expect("python3 runs").success(), "the picture could not be drawn");
}

/// Sends traffic of every kind for `time`.
async fn send_for(world: &World, time: Duration) {
    let traffic = TrafficGenerator::of(world);
    let events = (0..CALLERS.0).map(|_| traffic.events(Duration::from_secs(1)));
    let records = (0..CALLERS.1).map(|_| traffic.records(Duration::from_secs(2)));
    let callers = async {
        let events = futures_util::future::join_all(events);
        let records = futures_util::future::join_all(records);
        futures_util::join!(events, records, traffic.advisors(Duration::from_secs(2)));
    };
    tokio::select! {
        () = callers => {}
        () = sleep(time) => {}
    }
}
