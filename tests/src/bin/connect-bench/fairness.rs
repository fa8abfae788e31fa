//! A quiet agency's requests while another agency's callers send full batches without pause.

use crate::comparison::Comparison;
use crate::measure::{LoadStats, Sender, steady};
use crate::options::Options;
use crate::records::{CREATE_CLIENT, signed};
use crate::traffic::{Traffic, body};
use crate::worlds::{builder, fill};
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tests::raw::RawConnection;
use tests::{ApiKey, World, now};
use tokio::runtime::Builder;
use uuid::Uuid;

/// The other agency's callers, which ignore `Retry-After`.
const CALLERS: usize = 128;
const EVENT: &str = "a single event";
/// Requests of the quiet agency a second, which start at fixed times.
const RATE: f64 = 20.0;
/// How long the others send before the quiet agency is measured.
const AHEAD: Duration = Duration::from_secs(1);
/// Wait of the other agency's callers after a refusal, whatever `Retry-After` says.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// Batches of the other agency.
static ACCEPTED: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);

pub(crate) async fn run(options: &Options) -> String {
    let world = builder().start().await;
    let greedy = world.add_tenant("greedy").await;
    fill(&world, &greedy).await;
    fill(&world, &world.key).await;
    world.database.execute("ANALYZE").await;
    let mut comparison = Comparison::of_p99("requests", "nobody else");
    let failed = Cell::new(0);
    let quiet = async |request| quiet_agency(&world, request, options.duration(), &failed).await;
    for _ in 0..options.rounds {
        for request in [EVENT, "POST /clients"] {
            let load = async {
                // On a thread of their own, so that they delay the measured requests no more than another process.
                let others = Builder::new_multi_thread().worker_threads(1).enable_all().build();
                let others = others.expect("a runtime");
                for _ in 0..CALLERS {
                    others.spawn(send_without_pause(world.http().address(), greedy.clone()));
                }
                tokio::time::sleep(AHEAD).await;
                let stats = quiet(request).await;
                others.shutdown_background();
                world.until_depth("events", 0).await;
                stats
            };
            comparison.measure(request, &world, load, quiet(request)).await;
        }
    }
    format!(
        "A quiet agency sends {RATE} requests a second, while {CALLERS} callers of another agency send batches of 100 events without\npause, and {AFTER_REFUSAL:?} after a refusal. Floor: the same requests with nobody else. The quiet agency's requests that\nfailed: {}. Batches of the others that were accepted: {}; refused with 503: {}.\n\n{}",
        failed.get(),
        ACCEPTED.load(Ordering::Relaxed),
        REFUSED.load(Ordering::Relaxed),
        comparison.figures()
    )
}

/// The response times of the requests that succeeded.
async fn quiet_agency(world: &World, request: &str, length: Duration, failed: &Cell<usize>) -> LoadStats {
    let (sender, key, started) = (Sender::new(world, &world.key), &world.key, Instant::now());
    let results = steady(RATE, length, async || {
        let (request, status) = match request {
            EVENT => (key.events_at(now(), body(&Traffic::Identified.draw(1), &key.tenant)), 200),
            _ => (signed(key, CREATE_CLIENT, Uuid::nil()), 201),
        };
        let (response, took) = sender.exchange(&request).await;
        (response.status == status).then_some(took)
    })
    .await;
    let times: Vec<f64> = results.iter().copied().flatten().collect();
    failed.set(failed.get() + results.len() - times.len());
    LoadStats::new(times.len(), started.elapsed(), times)
}

async fn send_without_pause(address: SocketAddr, key: ApiKey) {
    loop {
        let mut connection = RawConnection::to(address).await;
        loop {
            let body = body(&Traffic::Identified.draw(100), &key.tenant);
            connection.send_request(&key.events_at(now(), body)).await;
            match connection.response().await {
                // Closed by ingest.
                None => break,
                Some(response) if response.status == 200 => _ = ACCEPTED.fetch_add(1, Ordering::Relaxed),
                Some(_) => {
                    REFUSED.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(AFTER_REFUSAL).await;
                }
            }
        }
    }
}
