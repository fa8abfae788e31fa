//! A quiet tenant while others burst: response times of its single events and records writes, and the responses to the
//! others. Target: p99 of at most a second, and no refusals, whatever the others do.

use super::bursts::{AFTER_REFUSAL, AfterSending, Burst, BurstOutcome, HANG_UP};
use super::quiet_tenant::{self, ResponseTimes};
use crate::options::Options;
use crate::prepare::{analyze_tables, fill_database};
use crate::traffic::Traffic;
use common::progress::Progress;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tests::{ApiKey, World, eventually};

/// Longest p99 of the quiet tenant, in seconds.
const TARGET: f64 = 1.0;
/// Largest number of tenants that burst.
const TENANTS: usize = 4;
/// A round lasts this many times the normal duration, because the quiet tenant sends few requests.
const DURATION_FACTOR: u32 = 2;
/// How long a burst lasts before the quiet tenant is measured.
const AHEAD: Duration = Duration::from_secs(1);
/// Maximum time that the backlog of a burst may take to be applied.
const DRAIN: Duration = Duration::from_secs(60);

/// Number of ingests that are started.
const INGESTS: usize = 2;

/// A burst of the other tenants, and the number of ingests.
#[derive(Clone, Copy)]
struct Case {
    burst: Option<Burst>,
    ingests: usize,
}

const CASES: [Case; 11] = [
    Case { burst: None, ingests: 1 },
    contacts(8, 1, AfterSending::Waits),
    contacts(128, 1, AfterSending::Waits),
    contacts(24, 1, AfterSending::HangsUp),
    contacts(24, TENANTS, AfterSending::HangsUp),
    contacts(128, TENANTS, AfterSending::HangsUp),
    contacts(128, TENANTS, AfterSending::Waits),
    contacts(128, 1, AfterSending::HangsUp).of(Traffic::Enquiries),
    contacts(128, TENANTS, AfterSending::Waits).of(Traffic::Enquiries),
    contacts(128, TENANTS, AfterSending::Waits).of(Traffic::Discoveries),
    contacts(128, TENANTS, AfterSending::HangsUp).with_two_ingests(),
];

const fn contacts(callers: usize, tenants: usize, after_sending: AfterSending) -> Case {
    let burst = Burst { callers, tenants, after_sending, traffic: Traffic::Identified };
    Case { burst: Some(burst), ingests: 1 }
}

impl Case {
    const fn of(mut self, traffic: Traffic) -> Self {
        if let Some(burst) = &mut self.burst {
            burst.traffic = traffic;
        }
        self
    }

    const fn with_two_ingests(mut self) -> Self {
        self.ingests = INGESTS;
        self
    }

    fn label(&self) -> String {
        let Some(Burst { callers, tenants, after_sending, traffic }) = &self.burst else {
            return "nobody else".to_owned();
        };
        let tenants = if *tenants == 1 { "1 tenant".to_owned() } else { format!("{tenants} tenants") };
        let after_sending = match after_sending {
            AfterSending::Waits => "wait",
            AfterSending::HangsUp => "hang up",
        };
        let traffic = match traffic {
            Traffic::Enquiries => ", enquiries",
            Traffic::Discoveries => ", discoveries",
            Traffic::Identified | Traffic::Mix | Traffic::Simple => "",
        };
        let ingests = if self.ingests == 1 { "" } else { ", 2 ingests" };
        format!("{callers} callers of {tenants} {after_sending}{traffic}{ingests}")
    }
}

/// The results of a case in all rounds.
#[derive(Default)]
struct CaseResult {
    events: ResponseTimes,
    writes: ResponseTimes,
    outcome: BurstOutcome,
    seconds: f64,
}

pub(crate) async fn run(options: &Options) {
    let rate = quiet_tenant::RATE;
    println!(
        "fairness: a quiet tenant sends {rate} single events and {rate} POST /clients a second, at fixed times,"
    );
    println!(
        "while other tenants send batches of 100 events, contact.identified unless noted. Those that wait send the next batch after the"
    );
    println!(
        "response, and after 503 the same one {AFTER_REFUSAL:?} later whatever Retry-After says; those that hang up"
    );
    println!("do so after {HANG_UP:?} and start again. All rounds are evaluated together.");
    let world = World::with().ingests(INGESTS).start().await;
    let mut keys = Vec::new();
    for number in 1..=TENANTS {
        let key = world.add_tenant(&format!("burst-{number}")).await;
        fill_database(&world, &key).await;
        keys.push(key);
    }
    fill_database(&world, &world.key).await;
    analyze_tables(&world).await;
    let mut all: Vec<CaseResult> = CASES.iter().map(|_| CaseResult::default()).collect();
    let steps = CASES.len() * options.rounds;
    let mut progress = Progress::begin("measurements:", steps as u64);
    for _ in 0..options.rounds {
        for (case, measured) in CASES.iter().zip(&mut all) {
            progress.next(&case.label());
            measure(&world, &keys, *case, measured, options).await;
        }
    }
    progress.end(steps as u64);
    print(&all);
    print_reasons(&world).await;
}

async fn measure(world: &World, keys: &[ApiKey], case: Case, measured: &mut CaseResult, options: &Options) {
    let begun = Instant::now();
    let addresses: Vec<SocketAddr> =
        world.ingests[..case.ingests].iter().map(|ingest| ingest.http().address()).collect();
    let burst = case.burst.map(|burst| burst.start(&addresses, keys));
    if burst.is_some() {
        tokio::time::sleep(AHEAD).await;
    }
    let (events, writes) =
        quiet_tenant::measure(&addresses, &world.key, options.duration() * DURATION_FACTOR).await;
    measured.events.add(events);
    measured.writes.add(writes);
    if let Some(burst) = burst {
        measured.outcome = measured.outcome.plus(burst.stop().await);
        measured.seconds += begun.elapsed().as_secs_f64();
        eventually("the backlog of the burst is applied", DRAIN, async || {
            let mut units = 0.0;
            for ingest in &world.ingests {
                units += ingest.metrics().await.sum("connect_backlog_units", &[("queue", "events")]);
            }
            match units {
                0.0 => Ok(()),
                units => Err(format!("{units} units wait")),
            }
        })
        .await;
    }
}

/// Why requests were refused, those of the quiet tenant included.
async fn print_reasons(world: &World) {
    let mut reasons = BTreeMap::<String, f64>::new();
    for ingest in &world.ingests {
        for sample in
            ingest.metrics().await.of("connect_overloaded_total").filter(|sample| sample.value > 0.0)
        {
            *reasons.entry(sample.labels["reason"].clone()).or_default() += sample.value;
        }
    }
    let reasons: Vec<String> = reasons.iter().map(|(reason, count)| format!("{reason} {count:.0}")).collect();
    println!("refused with 503 in all, by reason: {}", reasons.join(", "));
}

fn print(all: &[CaseResult]) {
    println!("{:>48}   {:^37}   {:^37}   target", "", "single event", "POST /clients");
    println!(
        "{:>48}   {}   {}   p99 1 s, 0 failed",
        "the others",
        ResponseTimes::head(),
        ResponseTimes::head()
    );
    for (case, measured) in CASES.iter().zip(all) {
        let CaseResult { events, writes, .. } = measured;
        let is_met = |times: &ResponseTimes| times.p99() <= TARGET && times.failures() == 0;
        let verdict = if is_met(events) && is_met(writes) { "met" } else { "missed" };
        println!("{:>48}   {}   {}   {verdict}", case.label(), events.columns(), writes.columns());
    }
    println!("responses to the others per second:");
    println!(
        "{:>48} {:>8} {:>8} {:>8} {:>8} {:>8}   Retry-After",
        "", "200", "503", "other", "hung up", "broken"
    );
    for (case, CaseResult { outcome, seconds, .. }) in CASES.iter().zip(all).skip(1) {
        let rate = |count: usize| count as f64 / seconds;
        let retry_after = outcome
            .retry_after
            .map_or_else(|| "none".to_owned(), |(least, most)| format!("{least} to {most} s"));
        println!(
            "{:>48} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>8.1}   {retry_after}",
            case.label(),
            rate(outcome.accepted),
            rate(outcome.overloaded),
            rate(outcome.other),
            rate(outcome.hung_up),
            rate(outcome.broken),
        );
    }
    let failures =
        all.iter().flat_map(|one| [&one.events, &one.writes]).filter_map(ResponseTimes::first_failure);
    for failure in failures {
        println!("a request of the quiet tenant failed: {failure}");
    }
}
