//! Enquiries end to end: sent one by one, their `lead.assigned` delivered to one webhook receiver. First 16
//! callers send at full speed, until every webhook is received; then requests come at a steady rate, to measure the time
//! from the request's first byte to the webhook's last. Each round at full speed is followed by its floor: an enquiry's bare
//! round trip over a quorum queue, and posting, queueing and inserting a webhook, one after the other.

use super::enquiries::SHAPE;
use super::webhook_floors::{self, WebhookFloors};
use super::webhooks::DELIVERIES;
use crate::cpu::{CpuMeter, CpuTime};
use crate::events;
use crate::figures::{LoadStats, median, millis, percent};
use crate::open_loop::{IdleConnections, steady};
use crate::options::Options;
use crate::prepare::{analyze_tables, api_address, fill_database, print_warnings};
use crate::random::Random;
use crate::request;
use crate::round_trips;
use crate::traffic::{Event, body};
use common::progress::Progress;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tests::{Receiver, World, eventually};

/// Enquiries a second of the steady load.
const STEADY: f64 = 300.0;
/// Connections that are opened before the steady load.
const STEADY_CONNECTIONS: usize = 16;
/// Maximum time that deliveries may take to arrive.
const MAX_WAIT: Duration = Duration::from_secs(120);

pub(crate) async fn run(options: &Options) {
    println!(
        "delivered: the same enquiries with one webhook subscription and one receiver on this machine, whose"
    );
    println!("CPU time is counted as the benchmark's");
    let world = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").start().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/")).await;
    fill_database(&world, &world.key).await;
    burst(&world, &receiver, options).await;
    analyze_tables(&world).await;

    let (mut bursts, mut floors, mut steadies) = (Vec::new(), Vec::new(), Vec::new());
    let mut progress = Progress::begin("rounds measured:", 2 * options.rounds as u64);
    for _ in 0..options.rounds {
        progress.next("at full speed");
        bursts.push(burst(&world, &receiver, options).await);
        floors.push(DeliveryFloor::measure(&world, &receiver, options).await);
    }
    let length = Duration::from_secs_f64(options.seconds * 4.0 / 3.0);
    for _ in 0..options.rounds {
        progress.next("at a steady rate");
        steadies.push(at_steady_rate(&world, &receiver, length).await);
    }
    progress.end(2 * options.rounds as u64);
    print(&bursts, &floors, &steadies);
    print_warnings(&world);
}

fn print(bursts: &[BurstRound], floors: &[DeliveryFloor], steadies: &[SteadyRound]) {
    let rates: Vec<String> = bursts.iter().map(|burst| format!("{:.0}", burst.rate)).collect();
    let rate = median(bursts.iter().map(|burst| burst.rate));
    println!("at full speed, 16 connections: {rate:.0} deliveries/s (rounds: {})", rates.join(", "));
    DeliveryFloor::print(floors, bursts);
    let used = bursts.iter().map(|burst| burst.used.clone()).reduce(|all, one| all.plus(&one));
    let count = bursts.iter().map(|burst| burst.count).sum();
    if let Some(used) = used {
        println!("CPU time per 1,000 deliveries: {}", used.per_thousand(count));
    }
    println!("targets: 1,900/s at 1.5 s per 1,000 deliveries over all programs (Svix: 748/s, 2.0 s)");
    let p50 = millis(median(steadies.iter().map(|steady| steady.stats.p50)));
    let p99 = millis(median(steadies.iter().map(|steady| steady.stats.p99)));
    let count: usize = steadies.iter().map(|steady| steady.stats.count).sum();
    println!(
        "request sent to webhook received, at a steady {STEADY}/s ({count} enquiries): p50 {p50}, p99 {p99}"
    );
    let refused: usize = steadies.iter().map(|steady| steady.refused).sum();
    if refused > 0 {
        println!(
            "{refused} enquiries more were refused with 503: this rate is above what the machine sustains now"
        );
    }
    println!("targets: p50 5 ms, p99 15 ms (Svix: p50 1.7 ms)");
}

/// The cost of each part of a delivered enquiry by itself, measured after a round.
struct DeliveryFloor {
    /// Bare round trips over a quorum queue, by as many callers.
    round_trips: LoadStats,
    webhooks: WebhookFloors,
}

impl DeliveryFloor {
    async fn measure(world: &World, receiver: &Receiver, options: &Options) -> Self {
        let round_trips = round_trips::floor(world, SHAPE.connections, options.duration()).await;
        Self { round_trips, webhooks: webhook_floors::measure(world, receiver, DELIVERIES).await }
    }

    /// Enquiries per second if all parts are done one after the other.
    fn rate(&self) -> f64 {
        1.0 / (1.0 / self.round_trips.rate + 1.0 / self.webhooks.together())
    }

    fn print(floors: &[Self], bursts: &[BurstRound]) {
        let middle = |rate: fn(&Self) -> f64| median(floors.iter().map(rate));
        let ratios: Vec<f64> =
            bursts.iter().zip(floors).map(|(burst, floor)| burst.rate / floor.rate()).collect();
        let each: Vec<String> = ratios.iter().map(|ratio| percent(*ratio)).collect();
        println!(
            "floor: 1/(1/r + 1/a + 1/b + 1/c) = {:.0}/s; ratio {} (rounds: {})",
            middle(Self::rate),
            percent(median(ratios)),
            each.join(", ")
        );
        println!(
            "  r: bare round trips over a quorum queue {:.0}/s; of the webhooks alone, a: bare posts {:.0}/s, b: a bare queue {:.0}/s, c: bare inserts {:.0}/s",
            middle(|floor| floor.round_trips.rate),
            middle(|floor| floor.webhooks.post),
            middle(|floor| floor.webhooks.queue),
            middle(|floor| floor.webhooks.rows),
        );
        let p50 = millis(middle(|floor| floor.round_trips.p50));
        println!("  a bare round trip, p50 at as many connections: {p50}");
    }
}

/// A round at full speed.
struct BurstRound {
    count: usize,
    rate: f64,
    used: CpuTime,
}

async fn burst(world: &World, receiver: &Receiver, options: &Options) -> BurstRound {
    receiver.clear_received();
    let meter = CpuMeter::new(world);
    let mut callers = events::connect_all(world, &world.key, SHAPE.connections).await;
    let (before, started) = (meter.read(), Instant::now());
    let sent = events::load_with(&mut callers, SHAPE, options.duration()).await;
    until_received(receiver, sent.count).await;
    let used = meter.read().since(&before);
    let last = receiver.with_received(|all| all.iter().map(|one| one.at).max());
    let took = last.map_or(f64::NAN, |last| last.duration_since(started).as_secs_f64());
    BurstRound { count: sent.count, rate: sent.count as f64 / took, used }
}

async fn until_received(receiver: &Receiver, count: usize) {
    eventually("every delivery is received", MAX_WAIT, async || match receiver.count() {
        received if received >= count => Ok(()),
        received => Err(format!("{received} of {count}")),
    })
    .await;
}

/// A round at the steady rate.
struct SteadyRound {
    /// Times from request to receipt.
    stats: LoadStats,
    /// Requests that were refused with 503.
    refused: usize,
}

async fn at_steady_rate(world: &World, receiver: &Receiver, length: Duration) -> SteadyRound {
    receiver.clear_received();
    let idle = IdleConnections::connect(api_address(world), STEADY_CONNECTIONS).await;
    let (random, sent) = (RefCell::new(Random::new()), RefCell::new(HashMap::new()));
    let started = Instant::now();
    let enquiry = async || {
        let events: Vec<Event> = SHAPE.traffic.draw(1, &mut random.borrow_mut());
        let request = request::events(&world.key, &body(&events, &world.key.tenant));
        let mut caller = idle.take().await;
        sent.borrow_mut().insert(events[0].id.clone(), Instant::now());
        let response = caller.send(&request).await;
        idle.put_back(caller);
        // Ingest is overloaded: the machine does not reach this rate, which the output says.
        let is_refused = response.status == 503;
        assert!(is_refused || response.status == 200, "{response:?}");
        if is_refused {
            sent.borrow_mut().remove(&events[0].id);
        }
        is_refused
    };
    let refused = steady(STEADY, length, enquiry).await.into_iter().filter(|is_refused| *is_refused).count();
    let (took, sent) = (started.elapsed(), sent.into_inner());
    until_received(receiver, sent.len()).await;
    SteadyRound { stats: LoadStats::new(sent.len(), took, times(receiver, &sent)), refused }
}

/// An enquiry's external id, which its webhook repeats, is its event's id.
fn times(receiver: &Receiver, sent: &HashMap<String, Instant>) -> Vec<f64> {
    let received = receiver.received();
    let time = |received: &tests::ReceivedRequest| {
        let webhook = received.json();
        let sent = sent.get(webhook["payload"]["externalId"].as_str()?)?;
        Some(received.at.saturating_duration_since(*sent).as_secs_f64())
    };
    let times: Vec<f64> = received.iter().filter_map(time).collect();
    assert!(times.len() >= sent.len(), "{} of {} webhooks name their enquiry", times.len(), sent.len());
    times
}
