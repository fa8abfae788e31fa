//! `contact.identified` one by one. Floor: bare round trips over a quorum queue at the same concurrency. At one
//! connection also the time of one event, compared with the sum of its unavoidable waits, each measured by itself: a round
//! trip, a durable commit, a replay entry.

use super::throughput::LoadCosts;
use crate::commits;
use crate::comparison::Comparison;
use crate::events::{self, EventCaller, LoadShape};
use crate::figures::{LoadStats, median, millis};
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
/// Largest ratio of the time of one event to its unavoidable waits.
const TARGET: f64 = 1.5;

pub(crate) async fn run(options: &Options) {
    println!("single: contact.identified, batch 1, tables analyzed;");
    println!(
        "floor: bare round trips over a quorum queue (publish, confirm, consume, direct reply, acknowledge)"
    );
    let world = filled_world().await;
    events::load(&world, shape(8), options.duration()).await;
    let rows: Vec<_> = ROWS.into_iter().filter(|(connections, ..)| options.includes(*connections)).collect();
    let steps = rows.len() * options.rounds;
    let mut progress = Progress::begin("rounds measured:", steps as u64);
    progress.with_bar_hidden(|| Comparison::print_head("events", "round trips"));
    let mut last = None;
    for (connections, keys, target) in rows {
        let label = match keys {
            1 => format!("{connections} connections"),
            keys => format!("{connections} connections, {keys} keys"),
        };
        let keys = keys_of(&world, keys).await;
        let mut comparison = Comparison::new(&label, target);
        let mut waits = UnavoidableWaits::default();
        let mut costs = LoadCosts::begin(&world).await;
        for _ in 0..options.rounds {
            progress.next(&label);
            let mut callers = callers(&world, &keys, connections).await;
            let load = events::load_with(&mut callers, shape(connections), options.duration()).await;
            costs.add(&world, load.count).await;
            let floor = round_trips::floor(&world, connections, options.duration()).await;
            comparison.add(load, floor);
            if connections == 1 {
                waits.add(&world, &load, &floor, options).await;
            }
            costs.skip(&world).await;
        }
        progress.with_bar_hidden(|| {
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

/// The tenant's first key and new ones, `count` in all.
async fn keys_of(world: &World, count: usize) -> Vec<ApiKey> {
    let mut keys = vec![world.key.clone()];
    while keys.len() < count {
        keys.push(world.add_key(ALL_SCOPES).await);
    }
    keys
}

/// Connects `count` callers, who use the keys in turn.
async fn callers(world: &World, keys: &[ApiKey], count: usize) -> Vec<EventCaller> {
    join_all(keys.iter().cycle().take(count).map(|key| EventCaller::connect(world, key))).await
}

const fn shape(connections: usize) -> LoadShape {
    LoadShape { traffic: Traffic::Identified, batch: 1, connections }
}

/// Medians of one event and of its unavoidable waits, in seconds, for each round.
#[derive(Default)]
struct UnavoidableWaits {
    event: Vec<f64>,
    round_trip: Vec<f64>,
    commit: Vec<f64>,
    replay_entry: Vec<f64>,
}

impl UnavoidableWaits {
    async fn add(&mut self, world: &World, event: &LoadStats, round_trip: &LoadStats, options: &Options) {
        let length = options.duration() / 2;
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
