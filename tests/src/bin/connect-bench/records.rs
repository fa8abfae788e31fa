//! The records API: reads beside the bare look-up by primary key, and writes, alone and during another agency's burst
//! of events.

use crate::figures::{Stretch, millis};
use crate::traffic;
use futures_util::future::join_all;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tests::{ApiKey, Http, World};
use uuid::Uuid;

const STRETCH: Duration = Duration::from_secs(2);
const CONCURRENCY: usize = 8;

/// Runs it all and prints the rows.
pub(crate) async fn run(world: &World) {
    println!("records at concurrency {CONCURRENCY}:");
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "1000000"]).await;
    let client = create(world, world.http()).await;
    let target = format!("{}/clients/{client}", tests::RECORDS);
    let reads = measure(async || read(world, world.http(), &target).await).await;
    let floor = floor(world, client).await;
    show("GET /clients/{id}", &reads);
    println!(
        "{:>36} {floor:>9.0}/s   ratio {:.0}%",
        "bare SELECT by primary key",
        reads.rate / floor * 100.0
    );
    let idle = measure(async || _ = create(world, world.http()).await).await;
    show("POST /clients", &idle);
    let other = world.add_tenant("burst").await;
    let during = burst(world, &other, measure(async || _ = create(world, world.http()).await)).await;
    show("POST /clients during a burst", &during);
    println!(
        "p99 under the burst: {:.1} times the idle one",
        during.p99.as_secs_f64() / idle.p99.as_secs_f64()
    );
}

fn show(what: &str, stretch: &Stretch) {
    let (p50, p99) = (millis(stretch.p50.as_secs_f64()), millis(stretch.p99.as_secs_f64()));
    println!("{what:>36} {:>9.0}/s   p50 {p50}   p99 {p99}", stretch.rate);
}

/// Does the same from several callers at once, for one stretch.
async fn measure(once: impl AsyncFn()) -> Stretch {
    let started = Instant::now();
    let caller = || async {
        let mut times = Vec::new();
        while started.elapsed() < STRETCH {
            let sent = Instant::now();
            once().await;
            times.push(sent.elapsed());
        }
        times
    };
    let times = join_all((0..CONCURRENCY).map(|_| caller())).await.concat();
    Stretch::new(times.len(), started.elapsed(), times)
}

async fn create(world: &World, http: &Http) -> Uuid {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let body = json!({"name": "Bench", "email": format!("record.{count}@example.net")}).to_string();
    let request = world.key.records("POST", &format!("{}/clients", tests::RECORDS), body);
    let answer = http.send(&request.with("idempotency-key", format!("bench-{count}"))).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["data"]["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
}

/// Each read differs in its query, so that its signature does.
async fn read(world: &World, http: &Http, target: &str) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let target = format!("{target}?n={}", COUNT.fetch_add(1, Ordering::Relaxed));
    let answer = http.send(&world.key.records("GET", &target, "")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// The bare prepared look-up, over as many connections; look-ups in a second.
async fn floor(world: &World, client: Uuid) -> f64 {
    let started = Instant::now();
    let caller = || async {
        let connection = world.database.connect().await;
        let sql = "SELECT * FROM clients WHERE tenant_id = (SELECT tenant_id FROM tenants WHERE slug = 'acme') AND client_id = $1";
        let statement = connection.prepare(sql).await.expect("the look-up fits the schema");
        let mut count = 0_u32;
        while started.elapsed() < STRETCH {
            connection.query_one(&statement, &[&client]).await.expect("the client is there");
            count += 1;
        }
        count
    };
    let count: u32 = join_all((0..CONCURRENCY).map(|_| caller())).await.into_iter().sum();
    f64::from(count) / started.elapsed().as_secs_f64()
}

/// Measures while another agency sends batches of 100 without pause.
async fn burst<T>(world: &World, other: &ApiKey, measured: impl Future<Output = T>) -> T {
    let is_over = AtomicBool::new(false);
    let sender = || async {
        while !is_over.load(Ordering::Relaxed) {
            let body = traffic::body(&traffic::next("burst", 100)).replace("\"acme\"", "\"burst\"");
            let answer = world.http().send(&other.events(body)).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    };
    let measured = async {
        let measured = measured.await;
        is_over.store(true, Ordering::Relaxed);
        measured
    };
    futures_util::join!(join_all((0..CONCURRENCY).map(|_| sender())), measured).1
}
