//! Worlds to measure: programs with the defaults of an operator, company accounts, the pool of people, planner
//! statistics.

use crate::measure::Sender;
use crate::traffic::{COMPANIES, Event, everybody};
use futures_util::future::join_all;
use tests::{ApiKey, World, WorldBuilder};

/// A world with the default limits, where the tests' own ones are far higher.
pub(crate) fn builder() -> WorldBuilder {
    World::with()
        .set("CONNECT_REPLY_TIMEOUT", "10s")
        .set("CONNECT_BACKLOG_TARGET", "300ms")
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
}

/// A world with the company accounts, the pool of people, and analyzed tables.
pub(crate) async fn filled() -> World {
    let world = builder().start().await;
    fill(&world, &world.key).await;
    world.database.execute("ANALYZE").await;
    world
}

/// Creates the company accounts of a tenant, and each person of the pool once, through the API on eight connections.
pub(crate) async fn fill(world: &World, key: &ApiKey) {
    let statement =
        "INSERT INTO clients (tenant_id, client_id, name, client_type, company_domain, created_at, updated_at)
        SELECT tenant_id, gen_random_uuid(), 'Company ' || n, 'company', 'company-' || n || '.example',
               date_trunc('milliseconds', now()), date_trunc('milliseconds', now())
        FROM tenants, generate_series(0, $2::bigint - 1) AS n WHERE slug = $1";
    let created = world.database.connect().await.execute(statement, &[&key.tenant, &(COMPANIES as i64)]).await;
    created.expect("company accounts");
    let events = everybody();
    let batches: Vec<&[Event]> = events.chunks(100).collect();
    let sender = Sender::new(world, key);
    let send = async |batches: &[&[Event]]| {
        for batch in batches {
            sender.events(batch).await;
        }
    };
    join_all(batches.chunks(batches.len().div_ceil(8)).map(send)).await;
    let statement = "SELECT count(*) FROM clients WHERE company_domain IS NULL AND account_id IS NOT NULL";
    let joined = world.database.count(statement).await;
    assert!(joined > 0, "nobody joined a company account: do the inserted accounts fit the schema?");
}

/// Starts and terminates programs until so many ingests, workers and dispatchers run.
pub(crate) async fn run_copies(world: &mut World, (ingests, workers, dispatchers): (usize, usize, usize)) {
    let counts = [ingests, workers, dispatchers];
    let running = [&mut world.ingests, &mut world.workers, &mut world.dispatchers];
    for (programs, count) in running.into_iter().zip(counts) {
        // Drained, so that nothing is redelivered.
        for mut program in programs.drain(count.min(programs.len())..) {
            program.terminate().await;
        }
    }
    while world.ingests.len() < ingests {
        world.add_ingest().await;
    }
    while world.workers.len() < workers {
        world.add_worker().await;
    }
    while world.dispatchers.len() < dispatchers {
        world.add_dispatcher().await;
    }
    world.until_ready().await;
}

/// Disables autovacuum, and so automatic ANALYZE, for every table.
pub(crate) async fn disable_autovacuum(world: &World) {
    let statement = "DO $$ DECLARE t regclass; BEGIN
        FOR t IN SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', t);
        END LOOP; END $$";
    world.database.execute(statement).await;
}

/// The first warning or error that a program has logged, because it may invalidate the figures; empty if there is none.
pub(crate) fn warnings(world: &World) -> String {
    // The first is set here, the second is a default; programs warn about both at start.
    let expected = ["CONNECT_WEBHOOK_ALLOW_PRIVATE", "CONNECT_CRM_UNSIGNED"];
    let programs = world.ingests.iter().chain(&world.workers).chain(&world.dispatchers);
    let logs: Vec<String> = programs.map(tests::Program::logs).collect();
    let is_expected = |line: &str| expected.iter().any(|name| line.contains(name));
    let lines = logs.iter().flat_map(|log| log.lines());
    let warnings = lines.filter(|line| !line.contains(r#""level":"INFO""#) && !is_expected(line));
    let warnings: Vec<&str> = warnings.collect();
    let Some(first) = warnings.first() else { return String::new() };
    format!("\nThe programs logged {} warnings, the first: `{first}`\n", warnings.len())
}
