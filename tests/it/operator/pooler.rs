//! PgBouncer in front of Postgres: it refuses or drops the settings that the programs send, so their role must have
//! them.

use super::ports::until_failing_checks;
use serde_json::json;
use tests::dedicated_servers::{Pooler, Postgres};
use tests::roles::{as_program, login};
use tests::{Program, Receiver, World, event};

/// A session for each connection of the programs.
const SESSIONS: &str = "default_pool_size = 100";

const SERVICES: [&str; 2] = ["connect-ingest", "connect-dispatcher"];

/// A migrated database behind a pooler, with no program yet.
async fn world_behind(pooler: &Pooler, postgres: &Postgres) -> World {
    let mut world = World::with()
        .on_postgres(postgres.url())
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .ingests(0)
        .workers(0)
        .start()
        .await;
    let direct = world.database.url().to_owned();
    world.set("DATABASE_DIRECT_URL", &direct);
    world.set("DATABASE_URL", &pooler.url(&direct));
    world
}

/// Starts the programs whose pools go through the pooler, and waits until their logs contain each of `parts`.
async fn assert_logged(world: &World, parts: &[&str]) {
    for name in SERVICES {
        let program = Program::listening(name, world.settings()).await;
        program.until_ready().await;
        for part in parts {
            program.until_logged(part).await;
        }
    }
}

/// Has `connectctl migrate` write the settings to the users of the programs.
async fn write_settings(world: &World) {
    let connectctl = tests::Connectctl::with(world.settings().to_vec());
    for name in SERVICES {
        let url = as_program(name, world.database.url());
        let user = login(name.trim_start_matches("connect-"));
        let migrated = connectctl.clone().and("DATABASE_URL", &url).json(&["migrate"]).await;
        assert_eq!(migrated, json!({"applied": [], "role": user}));
    }
}

#[tokio::test]
async fn programs_work_behind_a_pooler_that_refuses_their_settings() {
    let postgres = Postgres::start().await;
    let pooler = Pooler::start(&postgres, &[SESSIONS]).await;
    let world = world_behind(&pooler, &postgres).await;
    assert_logged(
        &world,
        &[
            "a connection pooler refuses the session's options",
            "the session has statement_timeout = 0 instead of",
            "the session has plan_cache_mode = auto instead of force_generic_plan",
        ],
    )
    .await;

    write_settings(&world).await;
    // The pooler would keep the sessions that began without them.
    let fresh = Pooler::start(&postgres, &[SESSIONS]).await;
    assert_programs_work(world, &fresh).await;
}

/// Checks that an event passes all programs behind the pooler, and that their sessions have all settings.
async fn assert_programs_work(mut world: World, pooler: &Pooler) {
    let url = pooler.url(world.database.url());
    world.set("DATABASE_URL", &url);
    let receiver = Receiver::http();
    let connectctl = tests::Connectctl::with(world.settings().to_vec());
    connectctl.json(&["subscription", "create", "--tenant", "acme", "--url", &receiver.url("/hooks")]).await;
    world.add_ingest().await;
    world.add_worker().await;
    world.add_dispatcher().await;
    world.until_ready().await;
    world.accept(event("enquiry.submitted").email("ana@example.com").name("Ana")).await;
    receiver.wait_for(1).await;
    for program in world.ingests.iter().chain(&world.workers).chain(&world.dispatchers) {
        assert!(!program.logs().contains("the session has"), "{}", program.logs());
    }
}

/// Clients share sessions, a transaction each. Debian 12 has an older PgBouncer: `CONNECT_PGBOUNCER` names another one.
#[tokio::test]
async fn programs_work_behind_a_pooler_of_transactions() {
    if !Pooler::knows_prepared_statements() {
        // `make test` says so at its end. The test below is about such a pooler.
        return;
    }
    let postgres = Postgres::start().await;
    let lines = ["pool_mode = transaction", "max_prepared_statements = 200", "default_pool_size = 3"];
    let pooler = Pooler::start(&postgres, &lines).await;
    let world = world_behind(&pooler, &postgres).await;
    write_settings(&world).await;
    assert_programs_work(world, &pooler).await;
}

#[tokio::test]
async fn a_pooler_of_transactions_without_prepared_statements_is_named_with_the_remedy() {
    const REMEDY: &str = "PgBouncer 1.21 or newer with max_prepared_statements";
    let postgres = Postgres::start().await;
    let mut lines = vec!["pool_mode = transaction", "default_pool_size = 3"];
    if Pooler::knows_prepared_statements() {
        lines.push("max_prepared_statements = 0");
    }
    let pooler = Pooler::start(&postgres, &lines).await;
    let world = world_behind(&pooler, &postgres).await;
    write_settings(&world).await;
    for name in SERVICES {
        let program = Program::listening(name, world.settings()).await;
        program.until_logged(REMEDY).await;
    }
    let doctor = tests::Connectctl::with(world.settings().to_vec());
    let doctor = doctor.and("DATABASE_URL", &pooler.url(world.database.url()));
    let report = doctor.run(&["doctor", "--json"]).await;
    assert_eq!(report.output.matches(REMEDY).count(), 1, "{report:?}");
}

#[tokio::test]
async fn settings_that_a_pooler_drops_silently_are_noticed() {
    let postgres = Postgres::start().await;
    let pooler = Pooler::start(&postgres, &[SESSIONS, "ignore_startup_parameters = options"]).await;
    let world = world_behind(&pooler, &postgres).await;
    assert_logged(&world, &["the session has enable_seqscan = on instead of off"]).await;

    // Wrong results are worse than none.
    world.database.execute(&format!("ALTER ROLE {} SET timezone = 'Europe/Berlin'", login("ingest"))).await;
    let pooler = Pooler::start(&postgres, &[SESSIONS, "ignore_startup_parameters = options"]).await;
    let mut settings = world.settings().to_vec();
    settings.push(("DATABASE_URL".to_owned(), pooler.url(world.database.url())));
    let ingest = Program::listening("connect-ingest", &settings).await;
    until_failing_checks(&ingest, &["master_key", "postgres", "replay_store"]).await;
    ingest.until_logged("the session has timezone = Europe/Berlin instead of UTC").await;
    // The settings of the role in the database take precedence over those of the role.
    write_settings(&world).await;
    let pooler = Pooler::start(&postgres, &[SESSIONS, "ignore_startup_parameters = options"]).await;
    settings.push(("DATABASE_URL".to_owned(), pooler.url(world.database.url())));
    let ingest = Program::listening("connect-ingest", &settings).await;
    ingest.until_ready().await;
}
