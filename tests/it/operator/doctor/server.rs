//! Checks of the Postgres server, and of certificates that expire soon.

use super::{findings, of, until_fixed, until_found, world_without_programs};
use crate::tls::Files;
use tests::dedicated_servers::{Broker, Pooler, Postgres, StopMode};
use tests::{Authority, Connectctl, World, text};

#[tokio::test]
async fn settings_that_lose_data_clocks_that_differ_and_what_fills_the_disk_are_found() {
    let (postgres, world) = world_without_programs().await;
    settings_that_lose_data_are_found(&postgres, &world).await;
    clocks_that_differ_are_found(&world).await;
    what_fills_the_disk_is_found(&world).await;
}

async fn settings_that_lose_data_are_found(postgres: &Postgres, world: &World) {
    let ctl = &world.connectctl;
    for (name, bad, level) in [
        ("fsync", "off", "error"),
        ("full_page_writes", "off", "error"),
        ("autovacuum", "off", "error"),
        ("track_counts", "off", "error"),
        ("synchronous_commit", "off", "warning"),
        ("default_transaction_isolation", "serializable", "warning"),
    ] {
        postgres.configure(&format!("SET {name} = '{bad}'")).await;
        let finding = until_found(ctl, &[], level, "postgres.settings", &format!("{name} is {bad}")).await;
        // The fix has two statements, of which the first one cannot run in a transaction block.
        for statement in text(&finding["fix"]).split("; then ") {
            world.database.execute(statement).await;
        }
        until_fixed(ctl, &[], "postgres.settings", name).await;
    }
    postgres.configure("SET synchronous_commit = 'local'").await;
    postgres.configure("SET synchronous_standby_names = 'other'").await;
    until_found(ctl, &[], "warning", "postgres.settings", "synchronous_commit is local").await;
    postgres.configure("RESET synchronous_standby_names").await;
    until_fixed(ctl, &[], "postgres.settings", "synchronous_commit").await;
    postgres.configure("SET default_transaction_read_only = on").await;
    until_found(ctl, &[], "error", "postgres.read_only", "the server is read-only").await;
    postgres.configure("RESET default_transaction_read_only").await;
    until_fixed(ctl, &[], "postgres.read_only", "").await;
}

async fn clocks_that_differ_are_found(world: &World) {
    world.database.execute("ALTER ROLE connect SET search_path = public, pg_catalog").await;
    for (ahead, level) in [("-1 minute", "error"), ("10 seconds", "warning")] {
        let clock = format!(
            "CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
             $$ SELECT pg_catalog.clock_timestamp() + interval '{ahead}' $$"
        );
        world.database.execute(&clock).await;
        until_found(&world.connectctl, &[], level, "postgres.clock", "differ by").await;
    }
    let drop = "DROP FUNCTION public.clock_timestamp(); ALTER ROLE connect RESET search_path";
    world.database.execute(drop).await;
    until_fixed(&world.connectctl, &[], "postgres.clock", "").await;
}

#[tokio::test]
async fn open_transactions_and_used_up_connections_are_found() {
    let (postgres, world) = world_without_programs().await;
    let ctl = &world.connectctl;
    world.database.execute("ALTER SYSTEM SET max_connections = 20").await;
    world.database.execute("ALTER SYSTEM SET max_prepared_transactions = 2").await;
    postgres.stop(StopMode::Fast).await;
    postgres.start_again().await;

    let _client = world.database.begin("SELECT count(*) FROM tenants").await;
    let young = ["--transaction-age", "1h"];
    assert!(of(&findings(ctl, &young).await, "postgres.transactions", "").is_none());
    let all = ["--transaction-age", "1ms"];
    let finding = until_found(ctl, &all, "error", "postgres.transactions", "idle in transaction").await;
    let terminate = text(&finding["fix"]).split_once(": ").expect("a statement").1;
    world.database.execute(terminate).await;
    until_fixed(ctl, &all, "postgres.transactions", "idle in transaction").await;

    let client = world.database.connect().await;
    let prepare = "BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'left'";
    // Statements of one message are one transaction, in which PREPARE TRANSACTION cannot run.
    for statement in prepare.split("; ") {
        client.batch_execute(statement).await.expect("a statement");
    }
    until_found(ctl, &all, "error", "postgres.transactions", "prepared transaction \"left\"").await;
    client.batch_execute("ROLLBACK PREPARED 'left'").await.expect("a prepared transaction");
    until_fixed(ctl, &all, "postgres.transactions", "prepared").await;
    drop(client);

    let mut clients = Vec::new();
    for _ in 0..15 {
        clients.push(world.database.connect().await);
    }
    until_found(ctl, &[], "warning", "postgres.connections", "of 20 connections").await;
    clients.clear();
    until_fixed(ctl, &[], "postgres.connections", "of 20").await;
}

async fn what_fills_the_disk_is_found(world: &World) {
    let ctl = &world.connectctl;
    world.database.execute("SELECT pg_create_physical_replication_slot('left_behind', true)").await;
    let finding = until_found(ctl, &[], "warning", "postgres.replication_slots", "left_behind").await;
    let drop_slot = text(&finding["fix"]).rsplit_once(": ").expect("a statement").1;
    world.database.execute(drop_slot).await;
    until_fixed(ctl, &[], "postgres.replication_slots", "").await;

    world.database.execute("ALTER TABLE intake_pressure SET (autovacuum_enabled = false)").await;
    let fill = "INSERT INTO intake_pressure SELECT tenant_id, 'events', gen_random_uuid(), 1, 1, now()
                FROM tenants, generate_series(1, 110000)";
    world.database.execute(fill).await;
    let finding = until_found(ctl, &[], "warning", "postgres.statistics", "intake_pressure was never analyzed").await;
    world.database.execute(text(&finding["fix"]).split(';').next().expect("a statement")).await;
    until_fixed(ctl, &[], "postgres.statistics", "").await;
    world.database.execute("DELETE FROM intake_pressure").await;
    until_found(ctl, &[], "warning", "postgres.vacuum", "intake_pressure has 110000 removed rows").await;
    world.database.execute("VACUUM intake_pressure").await;
    until_fixed(ctl, &[], "postgres.vacuum", "").await;
}

#[tokio::test]
async fn settings_that_a_pooler_drops_are_found() {
    let (postgres, world) = world_without_programs().await;
    let lines = ["default_pool_size = 20", "ignore_startup_parameters = options"];
    let pooler = Pooler::start(&postgres, &lines).await;
    let direct = world.connectctl.clone().and("DATABASE_DIRECT_URL", world.database.url());
    let ctl = direct.clone().and("DATABASE_URL", &pooler.url(world.database.url()));
    until_found(&ctl, &[], "warning", "postgres.pooler", "enable_seqscan = on instead of off").await;
    world.database.execute("ALTER ROLE connect SET timezone = 'Europe/Berlin'").await;
    let fresh = Pooler::start(&postgres, &lines).await;
    let ctl = direct.clone().and("DATABASE_URL", &fresh.url(world.database.url()));
    until_found(&ctl, &[], "error", "postgres.pooler", "timezone = Europe/Berlin instead of UTC").await;
    ctl.json(&["migrate"]).await;
    // The pooler would keep the sessions that began without the settings.
    let fresh = Pooler::start(&postgres, &lines).await;
    let ctl = direct.and("DATABASE_URL", &fresh.url(world.database.url()));
    until_fixed(&ctl, &[], "postgres.pooler", "").await;
}

#[tokio::test]
async fn certificates_of_postgres_and_of_its_clients_that_expire_soon_are_found() {
    let (postgres, world) = world_without_programs().await;
    client_certificates_and_authorities_that_expire_soon_are_found(&postgres, &world).await;
    let authority = Authority::new();
    let url = world.database.url().replace("127.0.0.1", "localhost");
    let url = format!("{url}?sslmode=verify-full&sslrootcert={}", authority.file().display());
    let ctl = world.connectctl.clone().and("DATABASE_URL", &url);
    for (days, level) in [(20, "warning"), (2, "error")] {
        postgres.encrypt(&authority.certificate_for_days(&["localhost"], days), None).await;
        until_found(&ctl, &[], level, "postgres.tls", "expires at").await;
    }
    postgres.encrypt(&authority.certificate(&["localhost"]), None).await;
    until_fixed(&ctl, &[], "postgres.tls", "expires at").await;
    postgres.encrypt(&authority.expired_certificate(&["localhost"]), None).await;
    until_found(&ctl, &[], "error", "postgres.tls", "the server's certificate expired at 2020-01-01").await;
    until_found(&ctl, &[], "error", "postgres.connection", "expired").await;
}

#[tokio::test]
async fn a_certificate_of_the_broker_that_expires_soon_is_found() {
    let authority = Authority::new();
    let certificate = |days| authority.certificate_for_days(&["localhost"], days);
    let (broker, port) = Broker::start_encrypted(&certificate(20), None).await;
    let url = format!("amqps://guest:guest@localhost:{port}/%2f?cacertfile={}", authority.file().display());
    let ctl = Connectctl::with(Vec::new()).and("AMQP_URL", &url);
    until_found(&ctl, &[], "warning", "broker.tls", "expires at").await;
    broker.renew(&certificate(2000), None).await;
    until_fixed(&ctl, &[], "broker.tls", "").await;
}

async fn client_certificates_and_authorities_that_expire_soon_are_found(postgres: &Postgres, world: &World) {
    let (authority, old, files) = (Authority::new(), Authority::for_days(20), Files::new());
    postgres.encrypt(&authority.certificate(&["localhost"]), None).await;
    // The check needs no server.
    let broker = "amqps://guest:guest@localhost:1/%2f";
    let base = world.database.url().replace("127.0.0.1", "localhost");
    let with = |days, roots: &Authority| {
        let [certificate, key] = files.write("own", &authority.certificate_for_days(&["connect"], days));
        let roots = files.copy("ca.pem", roots.file());
        let broker = format!("{broker}?cacertfile={roots}&certfile={certificate}&keyfile={key}");
        let url = format!("{base}?sslmode=verify-full&sslrootcert={roots}&sslcert={certificate}&sslkey={key}");
        world.connectctl.clone().and("AMQP_URL", &broker).and("DATABASE_READ_URL", &url)
    };
    for (days, level) in [(20, "warning"), (2, "error")] {
        let ctl = with(days, &authority);
        until_found(&ctl, &[], level, "postgres.tls", "the client certificate of sslcert").await;
        until_found(&ctl, &[], level, "broker.tls", "the client certificate of certfile").await;
    }
    let ctl = with(2000, &old);
    until_found(&ctl, &[], "warning", "postgres.tls", "the authority of sslrootcert").await;
    until_found(&ctl, &[], "warning", "broker.tls", "the authority of cacertfile").await;
    // A file with the old authority and the new one.
    let ctl = with(2000, &old);
    let both = [&old, &authority].map(|one| std::fs::read_to_string(one.file()).expect("the authority"));
    let path = files.copy("ca.pem", authority.file());
    std::fs::write(path, both.concat()).expect("a file");
    for (check, part) in [("postgres.tls", "expires at"), ("broker.tls", "expires at")] {
        let found = findings(&ctl, &[]).await;
        assert!(of(&found, check, part).is_none(), "{found:?}");
    }
}
