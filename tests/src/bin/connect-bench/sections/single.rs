//! `contact.identified` one by one. Floor: bare round trips over a quorum queue at the same concurrency. At one
//! connection also the time of one event beside the sum of the waits it can't avoid, each taken by itself: a round trip,
//! a durable commit, a replay entry.

use super::throughput::Costs;
use crate::commits;
use crate::comparison::Comparison;
use crate::events::{self, EventCaller, Shape};
use crate::figures::{Stretch, median, millis};
use crate::options::Options;
use crate::prepare::{filled_world, print_warnings};
use crate::round_trips;
use crate::traffic::Traffic;
use common::progress::Progress;
use futures_util::future::join_all;
use tests::{ALL_SCOPES, ApiKey, World};

/// Connections, keys, and the ratio to reach. Requests of one key are bundled, those of several are not bundled together.
const ROWS: [(usize, usize, Option<f64>); 5] =
    [(32, 1, Some(0.45)), (16, 1, None), (16, 16, None), (8, 1, Some(0.40)), (1, 1, None)];
/// How many times its unavoidable waits one event may take.
const TARGET: f64 = 1.5;

pub(crate) async fn run(options: &Options) {
    println!("single: contact.identified, batch 1, tables analyzed;");
    println!(
        "floor: bare round trips over a quorum queue (publish, confirm, consume, direct reply, acknowledge)"
    );
    let world = filled_world().await;
    events::load(&world, shape(8), options.stretch()).await;
    let rows: Vec<_> = ROWS.into_iter().filter(|(connections, ..)| options.includes(*connections)).collect();
    let steps = rows.len() * options.rounds;
    let mut progress = Progress::begin("rounds measured:", steps as u64);
    progress.beside(|| Comparison::print_head("events", "round trips"));
    let mut last = None;
    for (connections, keys, target) in rows {
        let label = match keys {
            1 => format!("{connections} connections"),
            keys => format!("{connections} connections, {keys} keys"),
        };
        let keys = keys_of(&world, keys).await;
        let mut comparison = Comparison::new(&label, target);
        let mut waits = Waits::default();
        let mut costs = Costs::begin(&world).await;
        for _ in 0..options.rounds {
            progress.next(&label);
            let mut callers = callers(&world, &keys, connections).await;
            let load = events::load_with(&mut callers, shape(connections), options.stretch()).await;
            costs.add(&world, load.count).await;
            let floor = round_trips::floor(&world, connections, options.stretch()).await;
            comparison.add(load, floor);
            if connections == 1 {
                waits.add(&world, &load, &floor, options).await;
            }
            costs.skip(&world).await;
        }
        progress.beside(|| {
            comparison.print();
            println!("    CPU time per 1,000 events: {}", costs.text());
        });
        last = (connections == 1).then_some(waits);
    }
    progress.end(steps as u64);
    if let Some(waits) = last {
        waits.print();
    }
    print_warnings(&world);
}

/// That many keys of the agency.
async fn keys_of(world: &World, count: usize) -> Vec<ApiKey> {
    let mut keys = vec![world.key.clone()];
    while keys.len() < count {
        keys.push(world.add_key(ALL_SCOPES).await);
    }
    keys
}

/// That many callers, who use the keys in turn.
async fn callers(world: &World, keys: &[ApiKey], count: usize) -> Vec<EventCaller> {
    join_all(keys.iter().cycle().take(count).map(|key| EventCaller::connect(world, key))).await
}

const fn shape(connections: usize) -> Shape {
    Shape { traffic: Traffic::Identified, batch: 1, connections }
}

/// Medians of one event and of the waits that it can't avoid, in seconds, round by round.
#[derive(Default)]
struct Waits {
    event: Vec<f64>,
    round_trip: Vec<f64>,
    commit: Vec<f64>,
    replay_entry: Vec<f64>,
}

impl Waits {
    async fn add(&mut self, world: &World, event: &Stretch, round_trip: &Stretch, options: &Options) {
        let length = options.stretch() / 2;
        self.event.push(event.p50);
        self.round_trip.push(round_trip.p50);
        self.commit.push(commits::durable_commits(world, length).await.p50);
        self.replay_entry.push(commits::replay_entries(world, length).await.p50);
    }

    fn print(&self) {
        let middle = |times: &[f64]| millis(median(times.iter().copied()));
        let waits = self.round_trip.iter().zip(&self.commit).zip(&self.replay_entry);
        let sums: Vec<f64> = waits.map(|((trip, commit), entry)| trip + commit + entry).collect();
        let ratio = median(self.event.iter().zip(&sums).map(|(event, sum)| event / sum));
        println!(
            "one event at 1 connection, p50: {}; bare round trip {} + durable commit {} + replay entry {} = {};",
            middle(&self.event),
            middle(&self.round_trip),
            middle(&self.commit),
            middle(&self.replay_entry),
            middle(&sums),
        );
        println!("  {ratio:.2} times that, target at most {TARGET}");
    }
}
