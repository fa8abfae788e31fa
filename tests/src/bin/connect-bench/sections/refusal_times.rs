//! Whether the response time of a refusal distinguishes an unknown key, a bad MAC and a revoked key. Requests are sent one
//! at a time on one connection, in triples of random order, and compared by a rank test.

use super::refusals::{events, unknown_key, with_wrong_secret};
use crate::caller::Caller;
use crate::figures::{percentile, timed};
use crate::prepare::api_address;
use crate::random::Random;
use crate::rank_test::RankTest;
use crate::request;
use common::progress::Progress;
use tests::{MAX_WAIT, World, eventually};

/// Requests of each kind, and those before them that are not measured.
const REQUESTS: usize = 10_000;
const WARM_UP: usize = 1_000;
/// A difference counts when it is significant and at least this large: a superiority of 0.56 is a small effect (Vargha and
/// Delaney), 0.64 a medium one.
const SIGNIFICANT: f64 = 0.001;
const SMALL: f64 = 0.06;
const LABELS: [&str; 3] = ["unknown key", "bad MAC", "revoked key"];
const MICROS: f64 = 1e6;

/// Measures the response times and prints the tests.
pub(super) async fn run(world: &World) {
    println!("response times of refusals, {REQUESTS} of each kind on one connection, in random order:");
    let revoked = world.add_key("events:ingest").await;
    world.connectctl.json(&["key", "revoke", &revoked.prefix]).await;
    let requests = [
        request::events(&unknown_key(&world.key), &events(&world.key, 1)),
        request::events(&with_wrong_secret(&world.key), &events(&world.key, 1)),
        request::events(&revoked, &events(&world.key, 1)),
    ];
    let mut caller = Caller::connect(api_address(world)).await;
    eventually("the revoked key is refused", MAX_WAIT, async || {
        match caller.send(&requests[2]).await.status {
            401 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
    let mut times = sample(&mut caller, &requests).await;
    times.iter_mut().for_each(|times| times.sort_unstable_by(f64::total_cmp));
    print(&times);
}

/// Response times of each kind, in seconds.
async fn sample(caller: &mut Caller, requests: &[Vec<u8>; 3]) -> [Vec<f64>; 3] {
    let (mut times, mut random) = ([const { Vec::new() }; 3], Random::new());
    let total = (WARM_UP + REQUESTS) as u64;
    let mut progress = Progress::begin("triples of refusals:", total);
    for triple in 0..WARM_UP + REQUESTS {
        for kind in shuffled(&mut random) {
            let (response, took) = timed(caller.send(&requests[kind])).await;
            assert_eq!(response.status, 401, "{}: {response:?}", LABELS[kind]);
            if triple >= WARM_UP {
                times[kind].push(took);
            }
        }
        progress.reached(triple as u64);
    }
    progress.end(total);
    times
}

fn shuffled(random: &mut Random) -> [usize; 3] {
    let mut order = [0, 1, 2];
    order.swap(2, random.below(3));
    order.swap(1, random.below(2));
    order
}

/// Prints the times, which are sorted, and the tests of each pair.
fn print(times: &[Vec<f64>; 3]) {
    println!("{:>16} {:>10} {:>10} {:>10} {:>10}", "", "p5", "median", "p95", "p99");
    for (label, times) in LABELS.iter().zip(times) {
        let column = |part| format!("{:.1} µs", percentile(times, part) * MICROS);
        println!(
            "{label:>16} {:>10} {:>10} {:>10} {:>10}",
            column(0.05),
            column(0.5),
            column(0.95),
            column(0.99)
        );
    }
    println!(
        "Mann-Whitney U test: the chance that the first takes longer (50 % without a difference), and p;"
    );
    println!(
        "a difference counts when p is below {SIGNIFICANT} and the chance is off by {:.0} % or more:",
        SMALL * 100.0
    );
    for (first, second) in [(0, 1), (2, 1), (0, 2)] {
        let test = RankTest::of(&times[first], &times[second]);
        let shift = (percentile(&times[first], 0.5) - percentile(&times[second], 0.5)) * MICROS;
        let is_different = test.p < SIGNIFICANT && (test.superiority - 0.5).abs() >= SMALL;
        println!(
            "{:>13} and {:<13} {:.1} %, p {}, medians differ by {shift:+.1} µs: {}; {:.0} requests of each would detect it",
            LABELS[first],
            LABELS[second],
            test.superiority * 100.0,
            if test.p < 0.0001 { "below 0.0001".to_owned() } else { format!("{:.4}", test.p) },
            if is_different { "different" } else { "no difference that counts" },
            test.needed(),
        );
    }
}
