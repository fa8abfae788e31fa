//! Several copies of the programs, and a database with many rows.

use crate::comparison::Comparison;
use crate::inserts::{insert_people, inserts};
use crate::measure::Shape;
use crate::options::Options;
use crate::traffic::Traffic;
use crate::worlds::{filled, run_copies, warnings};
use tests::World;

const SHAPE: Shape = Shape { traffic: Traffic::Mix, batch: 100, connections: 8 };
/// Numbers of ingests and workers.
const COPIES: [(usize, usize); 2] = [(1, 1), (2, 2)];

/// Bytes of the database with its indexes.
const SIZE: &str = "SELECT pg_database_size(current_database())";
/// Ids grow with the row's number, which makes the insert quick, and are spread evenly over all ids.
const SPREAD_ID: &str = "
    CREATE FUNCTION pg_temp.spread_id(n bigint, rows bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
    $$ SELECT (lpad(to_hex((n * 4294967295) / rows), 8, '0') || substr(md5(n::text), 9))::uuid $$";

const LEDGER: &str = "
    INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, warnings,
                              applied_at)
    SELECT tenant_id, pg_temp.spread_id(n, $1)::text, 'contact.identified', 'bulk', gen_random_uuid(), 0,
           gen_random_uuid(), '{}', now() - interval '1 day'
    FROM tenants, generate_series(0, $1::bigint - 1) AS n WHERE slug = 'acme'";

pub(crate) async fn run(options: &Options) -> String {
    let (mut small, large) = (prepared(options, 0).await, prepared(options, options.ledger_rows).await);
    let mut comparison = Comparison::of_rates("events", "bare inserts");
    let (mut events, mut bytes) = (0, 0);
    for _ in 0..options.rounds {
        for (ingests, workers) in COPIES {
            run_copies(&mut small, (ingests, workers, 0)).await;
            // Programs that have just started open their connections and prepare their statements.
            SHAPE.load(&small, options.duration() / 4).await;
            let load = async {
                let before = small.database.count(SIZE).await;
                let stats = SHAPE.load(&small, options.duration()).await;
                bytes += small.database.count(SIZE).await - before;
                events += stats.count;
                stats
            };
            let floor = inserts(&small, SHAPE, options.floor());
            comparison.measure(&format!("ingests: {ingests}, workers: {workers}"), &small, load, floor).await;
        }
        let load = SHAPE.load(&large, options.duration());
        let floor = inserts(&large, SHAPE, options.floor());
        comparison.measure("1 and 1, large database", &large, load, floor).await;
    }
    format!(
        "The mix in batches of {} on {} connections, to copies of the programs that share them. The large database has {}\nrows more in the event ledger; both are analyzed. Floor: bare inserts of the same events into the same\ndatabase. An event adds {} bytes to the database, with its indexes.\n\n{}{}{}",
        SHAPE.batch,
        SHAPE.connections,
        options.ledger_rows,
        bytes / events as i64,
        comparison.tables(),
        warnings(&small),
        warnings(&large)
    )
}

/// A world with so many more ledger rows, which are inserted with all indexes in place.
async fn prepared(options: &Options, ledger_rows: u32) -> World {
    let world = filled().await;
    insert_people(&world).await;
    let connection = world.database.connect().await;
    let prepared = connection.batch_execute(&format!("SET synchronous_commit = off; {SPREAD_ID}")).await;
    prepared.expect("a session for bulk inserts");
    connection.execute(LEDGER, &[&i64::from(ledger_rows)]).await.expect("rows of the ledger");
    SHAPE.load(&world, options.duration()).await;
    // Sets hint bits and writes dirty pages before the measurement, which would otherwise do it.
    for statement in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
        world.database.execute(statement).await;
    }
    world
}
