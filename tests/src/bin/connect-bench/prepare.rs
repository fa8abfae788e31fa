//! Preparing a world for a section: company accounts, the pool of people, planner statistics.

use crate::event_kinds::EventKind;
use crate::events::{EventCaller, connect_all};
use crate::people::{COMPANIES, POOL, company_domain, person};
use crate::random::Random;
use crate::traffic::Event;
use futures_util::future::join_all;
use std::net::SocketAddr;
use tests::{ApiKey, World};
use uuid::Uuid;

/// Connections and batch size of the events sent before a measurement.
const CONNECTIONS: usize = 8;
const BATCH: usize = 100;

/// Settings for the programs from the benchmark's own environment: the variables with one of these prefixes.
pub(crate) fn given_settings() -> Vec<(String, String)> {
    const OF_PROGRAMS: [&str; 5] =
        ["CONNECT_WORKER_", "CONNECT_RECORD_", "CONNECT_CRM_", "CONNECT_UNIT_", "CONNECT_BACKLOG_"];
    let is_of_program =
        |(name, _): &(String, String)| OF_PROGRAMS.iter().any(|prefix| name.starts_with(prefix));
    std::env::vars().filter(is_of_program).collect()
}

/// A world with the given settings, the company accounts, the pool of people, and analyzed tables.
pub(crate) async fn filled_world() -> World {
    let given = given_settings();
    let world = given.iter().fold(World::with(), |world, (name, value)| world.set(name, value)).start().await;
    fill_database(&world, &world.key).await;
    analyze_tables(&world).await;
    world
}

/// The address of the first ingest's API.
pub(crate) fn api_address(world: &World) -> SocketAddr {
    world.http().address()
}

/// Creates the company accounts, and each person of the pool once, through the API.
pub(crate) async fn fill_database(world: &World, key: &ApiKey) {
    create_companies(world, &key.tenant).await;
    introduce_pool(world, key).await;
}

/// Creates the company accounts of a tenant.
pub(crate) async fn create_companies(world: &World, tenant: &str) {
    let domains: Vec<String> = (0..COMPANIES).map(company_domain).collect();
    let ids: Vec<Uuid> = domains.iter().map(|_| Uuid::now_v7()).collect();
    let statement = "INSERT INTO clients (tenant_id, client_id, name, client_type, company_domain, created_at, updated_at)
        SELECT tenant_id, id, 'The company ' || domain, 'company', domain, date_trunc('milliseconds', now()),
               date_trunc('milliseconds', now())
        FROM tenants, unnest($2::uuid[], $3::text[]) AS c (id, domain) WHERE slug = $1";
    let created = world.database.connect().await.execute(statement, &[&tenant, &ids, &domains]).await;
    assert_eq!(created.expect("company accounts"), COMPANIES as u64, "company accounts of {tenant}");
}

/// Sends one `contact.identified` of each person of the pool.
pub(crate) async fn introduce_pool(world: &World, key: &ApiKey) {
    let mut random = Random::new();
    let mut callers = connect_all(world, key, CONNECTIONS).await;
    let event = |number| Event::new(EventKind::Identified, person(number), &mut random);
    let events: Vec<Event> = (0..POOL).map(event).collect();
    let batches: Vec<&[Event]> = events.chunks(BATCH).collect();
    let share = batches.len().div_ceil(CONNECTIONS);
    let send = async |(caller, batches): (&mut EventCaller, &[&[Event]])| {
        for batch in batches {
            caller.send(batch).await;
        }
    };
    join_all(callers.iter_mut().zip(batches.chunks(share)).map(send)).await;
    let statement = "SELECT count(*) FROM clients WHERE company_domain IS NULL AND account_id IS NOT NULL";
    let joined = world.database.count(statement).await;
    assert!(
        joined > 0,
        "no person of the pool joined a company account: do the inserted accounts fit the schema?"
    );
}

/// Updates the planner's statistics of every table.
pub(crate) async fn analyze_tables(world: &World) {
    world.database.execute("ANALYZE").await;
}

/// Prints the first warning or error that a program has logged, because it may invalidate the figures.
pub(crate) fn print_warnings(world: &World) {
    for program in world.ingests.iter().chain(&world.workers).chain(&world.dispatchers) {
        let logs = program.logs();
        // The first is set by some sections, the second is a default; programs warn about both at start.
        let is_expected = |line: &str| {
            ["CONNECT_WEBHOOK_ALLOW_PRIVATE", "CONNECT_CRM_UNSIGNED"].iter().any(|name| line.contains(name))
        };
        let is_warning = |line: &&str| !line.contains(r#""level":"INFO""#) && !is_expected(line);
        let mut warnings = logs.lines().filter(is_warning);
        if let Some(first) = warnings.next() {
            println!("the programs logged {} warnings, the first: {first}", 1 + warnings.count());
        }
    }
}

/// Disables autovacuum, and so automatic ANALYZE, for every table.
pub(crate) async fn disable_autovacuum(world: &World) {
    let statement = "DO $$ DECLARE t regclass; BEGIN
        FOR t IN SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', t);
        END LOOP; END $$";
    world.database.execute(statement).await;
}
