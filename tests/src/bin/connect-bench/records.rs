//! The records API: reads and writes, alone and during another agency's burst of events, each beside its floor.

use crate::burst::during_burst;
use crate::cpu;
use crate::figures::{Stretch, median, millis};
use crate::reads::{self, Lookup};
use crate::writes::{self, Insert};
use common::progress::Progress;
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tests::World;

/// Callers at once, each with a connection of its own.
const CONCURRENCY: usize = 8;
/// Rounds, of which the median counts.
const ROUNDS: usize = 3;
/// How long each stretch lasts.
const STRETCH: Duration = Duration::from_millis(1_500);

/// One kind of request and its floor, round by round.
struct Row {
    loads: Vec<Stretch>,
    floors: Vec<Stretch>,
}

/// Runs it all and prints the table.
pub(crate) async fn run(world: &World) {
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "1000000"]).await;
    let other = world.add_tenant("burst").await;
    let client = writes::create(world).await;
    let lookups = join_all((0..CONCURRENCY).map(|_| Lookup::new(world, client))).await;
    let inserts = join_all((0..CONCURRENCY).map(|_| Insert::new(world))).await;
    let read = async || measure(async |_| reads::read(world, client).await).await;
    let lookup = async || measure(async |caller| lookups[caller].once().await).await;
    let write = async || measure(async |_| _ = writes::create(world).await).await;
    let insert = async || measure(async |caller| inserts[caller].once().await).await;
    // Connections and statements are made when first used.
    futures_util::join!(read(), write());

    let [mut reads, mut writes, mut reads_in_burst, mut writes_in_burst] = [const { Row::new() }; 4];
    let mut progress = Progress::begin("rounds measured:", 2 * ROUNDS as u64);
    for _ in 0..ROUNDS {
        progress.next("records alone");
        reads.add(read().await, lookup().await);
        writes.add(write().await, insert().await);
        progress.next("records during another agency's burst");
        let in_burst = async { (read().await, lookup().await, write().await, insert().await) };
        let (read, lookup, write, insert) = during_burst(world, &other, in_burst).await;
        reads_in_burst.add(read, lookup);
        writes_in_burst.add(write, insert);
    }
    progress.end(2 * ROUNDS as u64);
    println!(
        "records at concurrency {CONCURRENCY}; the floor of a read is the bare prepared SELECT by primary key, of a"
    );
    println!("write the bare inserts of its rows; the burst is another agency's, full batches without pause");
    println!(
        "{:>20} {:>8} {:>9} {:>9}   {:>8} {:>9} {:>9} {:>7}",
        "", "/s", "p50", "p99", "floor /s", "p50", "p99", "ratio"
    );
    reads.show("GET /clients/{id}");
    reads_in_burst.show("during the burst");
    writes.show("POST /clients");
    writes_in_burst.show("during the burst");
    println!("aims: GET at least 25% of its floor: {:.0}%", reads.ratio() * 100.0);
    println!(
        "      p99 of POST in the burst at most 3 times the idle one: {:.1}",
        writes_in_burst.slower_than(&writes)
    );
    let before = cpu::seconds();
    let stretch = read().await;
    let spent = cpu::per_thousand(&before, &cpu::seconds(), stretch.rate * STRETCH.as_secs_f64());
    println!("processor for 1,000 GETs: {spent}");
}

/// Does the same from several callers at once, for one stretch. `once` is told which caller it is, from 0.
async fn measure(once: impl AsyncFn(usize)) -> Stretch {
    let started = Instant::now();
    let caller = async |caller| {
        let mut times = Vec::new();
        while started.elapsed() < STRETCH {
            let sent = Instant::now();
            once(caller).await;
            times.push(sent.elapsed());
        }
        times
    };
    let times = join_all((0..CONCURRENCY).map(caller)).await.concat();
    Stretch::new(times.len(), started.elapsed(), times)
}

impl Row {
    const fn new() -> Self {
        Self { loads: Vec::new(), floors: Vec::new() }
    }

    fn add(&mut self, load: Stretch, floor: Stretch) {
        self.loads.push(load);
        self.floors.push(floor);
    }

    fn show(&self, what: &str) {
        let [load, floor] = [&self.loads, &self.floors].map(|stretches| {
            let middle = |figure: fn(&Stretch) -> f64| median(stretches.iter().map(figure));
            let rate = middle(|stretch| stretch.rate);
            let p50 = millis(middle(|stretch| stretch.p50.as_secs_f64()));
            let p99 = millis(middle(|stretch| stretch.p99.as_secs_f64()));
            format!("{rate:>8.0} {p50:>9} {p99:>9}")
        });
        println!("{what:>20} {load}   {floor} {:>6.0}%", self.ratio() * 100.0);
    }

    /// How fast it is, in parts of its floor.
    fn ratio(&self) -> f64 {
        median(self.loads.iter().zip(&self.floors).map(|(load, floor)| load.rate / floor.rate))
    }

    /// How many times as long as in `idle` all but one in a hundred take.
    fn slower_than(&self, idle: &Self) -> f64 {
        let times = |(load, idle): (&Stretch, &Stretch)| load.p99.as_secs_f64() / idle.p99.as_secs_f64();
        median(self.loads.iter().zip(&idle.loads).map(times))
    }
}
