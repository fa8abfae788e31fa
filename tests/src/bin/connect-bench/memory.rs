//! Resident sizes of the programs: at rest, after a load, with thousands of idle or slow connections, with all of the
//! body budget in use, and afterwards.

use crate::comparison::Rounds;
use crate::document::table;
use crate::measure::Shape;
use crate::options::Options;
use crate::traffic::Traffic;
use crate::usage::memory;
use crate::worlds::{builder, fill};
use common::model::TenantId;
use common::sealed::{MasterKey, Secret, api_key_binding};
use futures_util::future::join_all;
use std::time::Duration;
use tests::raw::{RawConnection, head};
use tests::{EVENTS, MASTER_KEY, Program, World, now, until};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// Idle and slow connections, and the addresses that they come from in turn.
const CONNECTIONS: usize = 4_096;
const PEERS: usize = 8;
/// Callers that send all but the last byte of a body of the largest size, and the networks that they use in turn: an
/// address and a network may hold only a share of the budget.
const BODIES: usize = 90;
const BODY: usize = 4 << 20;
const NETWORKS: usize = 30;
/// How long such a caller waits for a refusal before it counts as holding its body.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);
/// Rest before a size is read that should have shrunk.
const REST: Duration = Duration::from_secs(10);
/// Keys with which another ingest starts, and how many are written at once.
const KEYS: usize = 200_000;
const WRITTEN: usize = 5_000;
/// How often a slow connection sends a byte.
const SLOW: Duration = Duration::from_secs(1);

pub(crate) async fn run(options: &Options) -> String {
    let (mut rounds, mut held, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let (states, bodies, of_key) = round(options).await;
        rounds.push(states);
        held.push(bodies as f64);
        keys.push(of_key);
    }
    let of_key = |part: usize| Rounds::of(keys.iter().map(|of_key| of_key[part])).median;
    let row = |state: usize| {
        let mut cells = vec![rounds[0][state].0.to_owned()];
        for program in 0..3 {
            let of = |part: usize| Rounds::of(rounds.iter().map(|states| states[state].1[program][part]));
            let (resident, peak) = (of(0), of(1));
            cells.extend([format!("{:.0}", resident.median), resident.spread(), format!("{:.0}", peak.median)]);
        }
        cells
    };
    let mut columns = vec!["MiB"];
    columns.extend(["ingest", "worker", "dispatcher"].iter().flat_map(|name| [name, "rounds differ", "peak"]));
    format!(
        "Resident MiB of each program, and its peak in that state. Each round starts the programs anew; their sizes at rest are\nthe floor. {} bodies of 4 MiB were held, of a budget of 256 MiB. Limits of connections and times are raised so that the\nstates last.\nEach key costs an ingest that starts with {KEYS} of them {:.0} bytes, and {:.0} while it loads them.\n\n{}",
        Rounds::of(held).median,
        of_key(0),
        of_key(1),
        table(&columns, (0..rounds[0].len()).map(row))
    )
}

/// The states with the size of each program, how many bodies were held, and what a key costs.
async fn round(options: &Options) -> (Vec<(&'static str, Vec<[f64; 2]>)>, usize, [f64; 2]) {
    let world = builder().dispatchers(1).set("CONNECT_MAX_CONNECTIONS", "16384");
    let mut world = world
        .set("CONNECT_HEADER_TIMEOUT", "120s")
        .set("CONNECT_IDLE_TIMEOUT", "120s")
        .set("CONNECT_BODY_TIMEOUT", "120s")
        .start()
        .await;
    sleep(SLOW).await;
    let mut states = vec![("at rest, just started", read(&world))];
    fill(&world, &world.key).await;
    Shape { traffic: Traffic::Mix, batch: 100, connections: 8 }.load(&world, options.duration()).await;
    sleep(REST).await;
    states.push(("after batches of the mix", read(&world)));

    let slow = format!("POST {EVENTS} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ");
    for (state, first, next) in [("4,096 idle connections", "", ""), ("4,096 slow connections", &slow, "a")] {
        let mut connections = open(&world, first).await;
        for _ in 0..3 {
            sleep(SLOW).await;
            join_all(connections.iter_mut().map(|connection| connection.send(next))).await;
        }
        states.push((state, read(&world)));
        drop(connections);
        sleep(REST).await;
        drop(read(&world));
    }

    let held = join_all((0..BODIES).map(|number| hold_body(&world, number))).await;
    let held: Vec<RawConnection> = held.into_iter().flatten().collect();
    states.push(("bodies of 4 MiB held", read(&world)));
    let bodies = held.len();
    drop(held);
    sleep(REST).await;
    states.push(("after they hung up", read(&world)));
    let of_key = keys(&mut world, states[0].1[0][0]).await;
    (states, bodies, of_key)
}

/// What each of many keys costs an ingest that starts with them, and at its peak, in bytes. `rest` is its size without them, in MiB.
async fn keys(world: &mut World, rest: f64) -> [f64; 2] {
    let client = world.database.connect().await;
    let tenant = client.query_one("SELECT tenant_id FROM tenants WHERE slug = $1", &[&world.key.tenant]).await;
    let tenant = TenantId(tenant.expect("the tenant").get(0));
    let master_key = MasterKey::parse(MASTER_KEY).expect("a key");
    let statement = "INSERT INTO api_keys (tenant_id, prefix, name, secret_sealed, scopes, created_at)
        SELECT $1, prefix, 'bench', sealed, '{events:ingest}', now() FROM unnest($2::text[], $3::bytea[]) AS k (prefix, sealed)";
    for first in (0..KEYS).step_by(WRITTEN) {
        let prefixes: Vec<String> = (first..first + WRITTEN).map(|number| format!("ck_{number:016x}")).collect();
        let seal = |prefix: &String| {
            let nonce = *Uuid::now_v7().as_bytes().last_chunk().expect("16 bytes");
            master_key.seal(&Secret::new(format!("cs_{:0>32}", &prefix[3..])), &api_key_binding(tenant, prefix), nonce)
        };
        let sealed: Vec<Vec<u8>> = prefixes.iter().map(seal).collect();
        client.execute(statement, &[&tenant.0, &prefixes, &sealed]).await.expect("keys");
    }
    world.add_ingest().await;
    world.until_ready().await;
    let [resident, peak] = memory(world.ingests[1].id()).expect("a running ingest");
    [resident, peak].map(|size| (size - rest) * f64::from(1 << 20) / KEYS as f64)
}

/// Resident size and peak of each program; the next peak starts from here.
fn read(world: &World) -> Vec<[f64; 2]> {
    let read = |program: &Program| memory(program.id()).unwrap_or_else(|| panic!("{} has ended", program.name()));
    world.ingests.iter().chain(&world.workers).chain(&world.dispatchers).map(read).collect()
}

/// Opens connections that send these bytes, and waits until ingest has accepted them.
async fn open(world: &World, first: &str) -> Vec<RawConnection> {
    let mut connections = Vec::new();
    for number in 0..CONNECTIONS {
        let source = [127, 0, 0, 2 + (number % PEERS) as u8];
        let mut connection = RawConnection::from(source, world.http().address()).await;
        connection.send(first).await;
        connections.push(connection);
    }
    let open = async || world.ingests[0].metrics().await.sum("connect_http_connections", &[]);
    until("ingest has all the connections", open, |&open| open >= CONNECTIONS as f64).await;
    connections
}

/// A connection whose body lacks the last byte; `None` if it was refused.
async fn hold_body(world: &World, number: usize) -> Option<RawConnection> {
    let request = world.key.events_at(now(), vec![b' '; BODY]);
    let start = [head(&request), format!("content-length: {BODY}\r\n\r\n").into_bytes()].concat();
    let source = [127, 0, 1 + (number % NETWORKS) as u8, 1];
    let mut connection = RawConnection::from(source, world.http().address()).await;
    connection.send(&start).await;
    connection.send(&request.body[1..]).await;
    timeout(REFUSED_WITHIN, connection.response()).await.is_err().then_some(connection)
}
