//! Events about known people: in batches of 100, on analyzed tables and on tables that were never analyzed, and one by
//! one.

use crate::bare_steps::BareSteps;
use crate::comparison::Comparison;
use crate::inserts::{insert_people, inserts};
use crate::measure::{Shape, measure, timed};
use crate::options::Options;
use crate::round_trips::round_trips;
use crate::traffic::Traffic;
use crate::worlds::{builder, disable_autovacuum, fill, filled, warnings};
use std::time::Duration;
use tests::World;

const BATCH: usize = 100;
/// The most context switches of the whole machine for a single event, by connections.
const SWITCHES_MAX: [(&str, f64); 2] = [("connections: 1", 80.0), ("connections: 8", 25.0)];
/// Traffic with its name, connections, and whether the tables were analyzed.
const LOADS: [(Traffic, &str, usize, bool); 4] = [
    (Traffic::Identified, "identified", 8, true),
    (Traffic::Identified, "identified", 1, true),
    (Traffic::Identified, "identified", 8, false),
    (Traffic::Mix, "mix", 8, true),
];

pub(crate) async fn batches(options: &Options) -> String {
    let [analyzed, cold] = [world(true, options).await, world(false, options).await];
    let mut comparison = Comparison::of_rates("events", "bare inserts");
    for _ in 0..options.rounds {
        for (traffic, name, connections, is_analyzed) in LOADS {
            let (world, statistics) = if is_analyzed { (&analyzed, "analyzed") } else { (&cold, "cold") };
            let label = format!("{name}, {statistics}, connections: {connections}");
            let shape = Shape { traffic, batch: BATCH, connections };
            let load = shape.load(world, options.duration());
            let floor = inserts(world, shape, options.floor());
            comparison.measure(&label, world, load, floor).await;
        }
    }
    let warnings = warnings(&analyzed) + &warnings(&cold);
    format!(
        "Batches of {BATCH} events about known people: `contact.identified`, or the mix. \"Cold\" tables were never analyzed, and\nautovacuum is off. Floor: bare multi-row inserts of the same events (ledger, client, timeline), a transaction a batch.\n\n{}{warnings}",
        comparison.tables()
    )
}

/// A world with the pool and with rows of every kind.
async fn world(is_analyzed: bool, options: &Options) -> World {
    let world = builder().start().await;
    disable_autovacuum(&world).await;
    if !is_analyzed {
        // So that statements are planned on nearly empty tables.
        let shape = Shape { traffic: Traffic::Identified, batch: 1, connections: 4 };
        shape.load(&world, Duration::from_secs(2)).await;
    }
    fill(&world, &world.key).await;
    let shape = Shape { traffic: Traffic::Mix, batch: BATCH, connections: 8 };
    shape.load(&world, options.duration()).await;
    insert_people(&world).await;
    if is_analyzed {
        world.database.execute("ANALYZE").await;
    }
    world
}

pub(crate) async fn single(options: &Options) -> String {
    let world = filled().await;
    let mut comparison = Comparison::of_rates("events", "round trips");
    let (mut steps, bare) = (Comparison::of_p50("events", "bare steps"), BareSteps::new(&world).await);
    let shape = |connections| Shape { traffic: Traffic::Identified, batch: 1, connections };
    for _ in 0..options.rounds {
        let floor = measure(1, options.floor(), 1, async |_| timed(bare.event("")).await.1);
        steps.measure("connections: 1", &world, shape(1).load(&world, options.duration()), floor).await;
        for connections in [1, 8, 32] {
            let shape = shape(connections);
            let load = shape.load(&world, options.duration());
            let floor = round_trips(&world, connections, options.floor());
            comparison.measure(&format!("connections: {connections}"), &world, load, floor).await;
        }
    }
    comparison.check_context_switches(&SWITCHES_MAX);
    bare.delete().await;
    format!(
        "`contact.identified`, an event a request. Floor: bare round trips over a quorum queue (publish, confirm, consume, direct\nreply, acknowledge) by as many callers; it has no HTTP, and no database. Its context switches are those of RabbitMQ and of the\nAMQP library, which has a thread for each connection: an event cannot do with fewer.\n\n{}\nThe same with a floor that has the database: a row whose commit does not wait for the disk (the signature), the round\ntrip, and a row whose commit does, by one bare client.\n\n{}{}",
        comparison.tables(),
        steps.figures(),
        warnings(&world)
    )
}
