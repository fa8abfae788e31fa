//! Bringing a world into the state that a section measures: company accounts, the pool of people, planner statistics.

use crate::events::{EventCaller, connect_all};
use crate::kinds::Kind;
use crate::people::{COMPANIES, POOL, company_domain, person};
use crate::random::Random;
use crate::traffic::Event;
use futures_util::future::join_all;
use std::net::SocketAddr;
use tests::{ApiKey, World};
use uuid::Uuid;

/// Connections and batch size of what is sent ahead.
const CONNECTIONS: usize = 8;
const BATCH: usize = 100;

/// The settings of the programs that the benchmark was given: the variables of its environment with a program's prefix.
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
    fill(&world, &world.key).await;
    analyze(&world).await;
    world
}

/// Where the API is served.
pub(crate) fn api(world: &World) -> SocketAddr {
    world.http().address()
}

/// Creates the company accounts, and each person of the pool once, through the API.
pub(crate) async fn fill(world: &World, key: &ApiKey) {
    create_companies(world, &key.tenant).await;
    introduce_pool(world, key).await;
}

/// Creates the company accounts of an agency.
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
    let event = |number| Event::new(Kind::Identified, person(number), &mut random);
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
        "nobody of the pool joined a company account: were the accounts created as the schema has them?"
    );
}

/// Gives the planner fresh statistics of every table.
pub(crate) async fn analyze(world: &World) {
    world.database.execute("ANALYZE").await;
}

/// Says when a program of the world has logged a warning or an error: figures of programs in trouble mean little.
pub(crate) fn print_warnings(world: &World) {
    for program in world.ingests.iter().chain(&world.workers).chain(&world.dispatchers) {
        let logs = program.logs();
        // Set on purpose by some sections, and a default; programs warn of both at start.
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

/// Keeps autovacuum, and so its analyzing, away from every table.
pub(crate) async fn disable_autovacuum(world: &World) {
    let statement = "DO $$ DECLARE t regclass; BEGIN
        FOR t IN SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', t);
        END LOOP; END $$";
    world.database.execute(statement).await;
}
