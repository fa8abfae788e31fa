//! A large database compared with a nearly empty one: the same load in both, alternately; the ratio is that of the large
//! one to the other. The rows are inserted in bulk with all indexes in place, and spread over the indexes like random ids.

use crate::events::{self, LoadShape};
use crate::figures::{LoadStats, median, millis, percent};
use crate::options::Options;
use crate::prepare::{analyze_tables, filled_world, print_warnings};
use crate::traffic::Traffic;
use common::progress::Progress;
use tests::World;

/// Batches of 100 known contacts over 8 connections.
const SHAPE: LoadShape = LoadShape { traffic: Traffic::Identified, batch: 100, connections: 8 };
/// Rows inserted by one statement; progress is printed after each.
const CHUNK: u64 = 250_000;
/// Ratio that the large database must reach.
const TARGET: f64 = 0.85;

/// Ids grow with the row's number, which makes the insert quick, and are spread evenly over all ids.
const LEDGER: &str = "
    INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, warnings,
                              applied_at)
    SELECT tenant_id, spread_id(n, $3)::text, 'contact.identified', 'bulk', gen_random_uuid(), 0, gen_random_uuid(),
           '{}', now() - interval '1 day'
    FROM tenants, generate_series($1::bigint, $2::bigint - 1) AS n WHERE slug = 'acme'";

const CLIENTS: &str = "
    INSERT INTO clients (tenant_id, client_id, name, email, email_key, phone, phone_digits, external_id, client_type,
                         created_at, updated_at)
    SELECT tenant_id, spread_id(n, $3), 'Bulk Traveller', 'bulk.' || n || '@gmail.com', 'bulk.' || n || '@gmail.com',
           '+917' || lpad(n::text, 9, '0'), '917' || lpad(n::text, 9, '0'), 'bulk-contact-' || n, 'individual',
           date_trunc('milliseconds', now()), date_trunc('milliseconds', now())
    FROM tenants, generate_series($1::bigint, $2::bigint - 1) AS n WHERE slug = 'acme'";

const SPREAD_ID: &str = "
    CREATE FUNCTION pg_temp.spread_id(n bigint, rows bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
    $$ SELECT (lpad(to_hex((n * 4294967295) / rows), 8, '0') || substr(md5(n::text), 9))::uuid $$";

pub(crate) async fn run(options: &Options) {
    let Options { ledger_rows, clients, .. } = options;
    println!(
        "large: contact.identified, batch 100, 8 connections; the tenant has {ledger_rows} ledger rows and {clients}"
    );
    println!(
        "clients more, compared with a database with the pool only; both analyzed; target {}",
        percent(TARGET)
    );
    let few = filled_world().await;
    let many = filled_world().await;
    insert_bulk_rows(&many, options).await;
    for world in [&few, &many] {
        events::load(world, SHAPE, options.duration()).await;
        analyze_tables(world).await;
    }
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        small.push(events::load(&few, SHAPE, options.duration()).await);
        large.push(events::load(&many, SHAPE, options.duration()).await);
    }
    print(&small, &large);
    [&few, &many].into_iter().for_each(print_warnings);
}

/// Inserts the ledger rows and clients in bulk.
async fn insert_bulk_rows(world: &World, options: &Options) {
    let connection = world.database.connect().await;
    connection.batch_execute("SET synchronous_commit = off").await.expect("a setting of the session");
    connection.batch_execute(SPREAD_ID).await.expect("a function of the session");
    let total = options.ledger_rows + options.clients;
    let mut progress = Progress::begin("rows inserted:", total);
    let mut done = 0;
    for (sql, rows) in [(CLIENTS, options.clients), (LEDGER, options.ledger_rows)] {
        let sql = sql.replace("spread_id", "pg_temp.spread_id");
        let statement = connection.prepare(&sql).await.expect("the statement fits the schema");
        for first in (0..rows).step_by(CHUNK as usize) {
            let end = rows.min(first + CHUNK);
            let range = [first, end, rows].map(|number| i64::try_from(number).expect("few rows"));
            let inserted = connection.execute(&statement, &[&range[0], &range[1], &range[2]]).await;
            inserted.unwrap_or_else(|error| panic!("bulk rows: {error:?}"));
            done += end - first;
            progress.reached(done);
        }
    }
    progress.end(done);
    // Sets hint bits and writes dirty pages before the measurement, which would otherwise do it.
    for statement in ["VACUUM (ANALYZE) clients", "VACUUM (ANALYZE) event_ledger", "CHECKPOINT"] {
        let settled = connection.batch_execute(statement).await;
        settled.unwrap_or_else(|error| eprintln!("{statement}: {error}"));
    }
}

fn print(small: &[LoadStats], large: &[LoadStats]) {
    let row = |label: &str, rounds: &[LoadStats]| {
        let middle = |figure: fn(&LoadStats) -> f64| median(rounds.iter().map(figure));
        let (p50, p99) = (millis(middle(|one| one.p50)), millis(middle(|one| one.p99)));
        println!("{label:>20} {:>8.0} events/s, p50 {p50}, p99 {p99}", middle(|one| one.rate));
    };
    row("nearly empty", small);
    row("large", large);
    let ratios: Vec<f64> = small.iter().zip(large).map(|(small, large)| large.rate / small.rate).collect();
    let each: Vec<String> = ratios.iter().map(|ratio| percent(*ratio)).collect();
    println!("{:>20} {} (rounds: {})", "ratio", percent(median(ratios)), each.join(", "));
}
