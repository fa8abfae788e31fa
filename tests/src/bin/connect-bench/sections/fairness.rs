//! A quiet agency while others burst: response times of its single events and records writes, beside what the others
//! got. Target: p99 of at most a second, and nothing refused, whatever the others do.

use super::bursts::{AFTER_REFUSAL, AfterSending, Burst, BurstOutcome, HANG_UP};
use super::quiet_agency::{self, ResponseTimes};
use crate::options::Options;
use crate::prepare::{analyze, api, fill};
use common::progress::Progress;
use std::time::{Duration, Instant};
use tests::{ApiKey, World, eventually};

/// Longest p99 of the quiet agency, in seconds.
const TARGET: f64 = 1.0;
/// Agencies that burst at most.
const AGENCIES: usize = 4;
/// Stretches of one round: the quiet agency's requests are few.
const STRETCHES: u32 = 2;
/// How long a burst lasts before the quiet agency is measured.
const AHEAD: Duration = Duration::from_secs(1);
/// Longest that the backlog of a burst may take to be applied.
const DRAIN: Duration = Duration::from_secs(60);

/// What the others do.
const CASES: [Option<Burst>; 6] = [
    None,
    Some(Burst { callers: 8, agencies: 1, after_sending: AfterSending::Waits }),
    Some(Burst { callers: 128, agencies: 1, after_sending: AfterSending::Waits }),
    Some(Burst { callers: 24, agencies: AGENCIES, after_sending: AfterSending::HangsUp }),
    Some(Burst { callers: 128, agencies: AGENCIES, after_sending: AfterSending::HangsUp }),
    Some(Burst { callers: 128, agencies: AGENCIES, after_sending: AfterSending::Waits }),
];

/// What a case gave in all rounds.
#[derive(Default)]
struct CaseResult {
    events: ResponseTimes,
    writes: ResponseTimes,
    outcome: BurstOutcome,
    seconds: f64,
}

pub(crate) async fn run(options: &Options) {
    let rate = quiet_agency::RATE;
    println!(
        "fairness: a quiet agency sends {rate} single events and {rate} POST /clients a second, each at its time,"
    );
    println!(
        "while other agencies send batches of 100 events. Those that wait send the next batch after the"
    );
    println!(
        "response, and after 503 the same one {AFTER_REFUSAL:?} later whatever Retry-After says; those that hang up"
    );
    println!("do so after {HANG_UP:?} and start again. All rounds are taken together.");
    let world = World::start().await;
    let mut keys = Vec::new();
    for number in 1..=AGENCIES {
        let key = world.add_tenant(&format!("burst-{number}")).await;
        fill(&world, &key).await;
        keys.push(key);
    }
    fill(&world, &world.key).await;
    analyze(&world).await;
    let mut all: Vec<CaseResult> = CASES.iter().map(|_| CaseResult::default()).collect();
    let steps = CASES.len() * options.rounds;
    let mut progress = Progress::begin("measurements:", steps as u64);
    for _ in 0..options.rounds {
        for (case, measured) in CASES.iter().zip(&mut all) {
            progress.next(&label(case.as_ref()));
            measure(&world, &keys, *case, measured, options).await;
        }
    }
    progress.end(steps as u64);
    print(&all);
    print_reasons(&world).await;
}

async fn measure(
    world: &World,
    keys: &[ApiKey],
    case: Option<Burst>,
    measured: &mut CaseResult,
    options: &Options,
) {
    let begun = Instant::now();
    let burst = case.map(|burst| burst.start(api(world), keys));
    if burst.is_some() {
        tokio::time::sleep(AHEAD).await;
    }
    let (events, writes) = quiet_agency::measure(world, options.stretch() * STRETCHES).await;
    measured.events.add(events);
    measured.writes.add(writes);
    if let Some(burst) = burst {
        measured.outcome = measured.outcome.plus(burst.stop().await);
        measured.seconds += begun.elapsed().as_secs_f64();
        eventually("the backlog of the burst is applied", DRAIN, async || {
            match world.ingests[0].metrics().await.sum("connect_backlog_units", &[("queue", "events")]) {
                0.0 => Ok(()),
                units => Err(format!("{units} units wait")),
            }
        })
        .await;
    }
}

/// Why requests were refused, those of the quiet agency included.
async fn print_reasons(world: &World) {
    let samples = world.ingests[0].metrics().await;
    let refused = samples.of("connect_refused_total").filter(|sample| sample.value > 0.0);
    let reasons: Vec<String> =
        refused.map(|sample| format!("{} {:.0}", sample.labels["reason"], sample.value)).collect();
    println!("refused with 503 in all, by reason: {}", reasons.join(", "));
}

fn label(case: Option<&Burst>) -> String {
    let Some(Burst { callers, agencies, after_sending }) = case else { return "nobody else".to_owned() };
    let agencies = if *agencies == 1 { "1 agency".to_owned() } else { format!("{agencies} agencies") };
    let after_sending = match after_sending {
        AfterSending::Waits => "wait",
        AfterSending::HangsUp => "hang up",
    };
    format!("{callers} callers of {agencies} {after_sending}")
}

fn print(all: &[CaseResult]) {
    println!("{:>34}   {:^37}   {:^37}   target", "", "single event", "POST /clients");
    println!(
        "{:>34}   {}   {}   p99 1 s, 0 failed",
        "the others",
        ResponseTimes::head(),
        ResponseTimes::head()
    );
    for (case, measured) in CASES.iter().zip(all) {
        let CaseResult { events, writes, .. } = measured;
        let is_met = |times: &ResponseTimes| times.p99() <= TARGET && times.failures() == 0;
        let verdict = if is_met(events) && is_met(writes) { "met" } else { "missed" };
        println!("{:>34}   {}   {}   {verdict}", label(case.as_ref()), events.columns(), writes.columns());
    }
    println!("what the others got, each second:");
    println!(
        "{:>34} {:>8} {:>8} {:>8} {:>8} {:>8}   Retry-After",
        "", "200", "503", "other", "hung up", "broken"
    );
    for (case, CaseResult { outcome, seconds, .. }) in CASES.iter().zip(all).skip(1) {
        let rate = |count: usize| count as f64 / seconds;
        let retry_after = outcome
            .retry_after
            .map_or_else(|| "none".to_owned(), |(least, most)| format!("{least} to {most} s"));
        println!(
            "{:>34} {:>8.1} {:>8.1} {:>8.1} {:>8.1} {:>8.1}   {retry_after}",
            label(case.as_ref()),
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
        println!("a request of the quiet agency failed: {failure}");
    }
}
