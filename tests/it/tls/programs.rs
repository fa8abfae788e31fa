//! All programs with TLS to both servers, and certificates that are renewed while they run. The first one is the commonest home-made
//! certificate: self-signed and an authority's. Where it is listed as trusted, it is accepted, as by psql and curl.

use super::Files;
use crate::console::ConsoleWorld;
use serde_json::json;
use std::fs;
use tests::dedicated_servers::{Broker, Postgres};
use tests::{Authority, MAX_WAIT, Program, Receiver, World, event, eventually};

/// Makes the programs of `world` use TLS to both servers.
fn encrypt(world: &mut World, port: u16, [roots, certificate, key]: [&str; 3]) {
    let place = world.database.url().replace("127.0.0.1", "localhost");
    let url = format!("{place}?sslmode=verify-full&sslrootcert={roots}&sslcert={certificate}&sslkey={key}");
    world.set("DATABASE_URL", &url);
    world.set(
        "AMQP_URL",
        &format!(
            "amqps://guest:guest@localhost:{port}/%2f?cacertfile={roots}&certfile={certificate}&keyfile={key}"
        ),
    );
}

/// Waits until the programs, except for the console, have each logged a line with all of `parts`.
async fn until_all_logged(world: &World, parts: &[&str]) {
    eventually(&format!("the programs log {parts:?}"), MAX_WAIT, async || {
        let mut programs = world.ingests.iter().chain(&world.workers).chain(&world.dispatchers);
        let is_meant = |line: &str| parts.iter().all(|part| line.contains(part));
        let silent = programs.find(|program| !program.logs().lines().any(is_meant));
        silent.map_or(Ok(()), |program| Err(program.name().to_owned()))
    })
    .await;
}

/// Connections to Postgres, except for the test's own, with whether they are encrypted.
async fn assert_all_encrypted(world: &World, broker: &Broker) {
    let sessions =
        "SELECT s.application_name AS name, t.ssl FROM pg_stat_activity s JOIN pg_stat_ssl t USING (pid)
        WHERE s.datname = current_database() AND s.application_name <> ''";
    let rows = world.database.rows(sessions, &[]).await;
    assert!(rows.len() > 5 && rows.iter().all(|row| row["ssl"] == true), "{rows:?}");
    let listed = broker.control(&["list_connections", "ssl", "--formatter", "json"]).await;
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).expect("JSON");
    assert!(listed.len() >= 4 && listed.iter().all(|row| *row == json!({"ssl": true})), "{listed:?}");
}

#[tokio::test]
async fn programs_work_with_tls_and_use_renewed_certificates_without_a_restart() {
    let authority = Authority::self_signed(&["localhost", "127.0.0.1"]);
    let (clients, files) = (Authority::new(), Files::new());
    let postgres = Postgres::start().await;
    let (file, certificate) = (authority.file().display().to_string(), authority.certificate(&[]));
    postgres.encrypt(&certificate, Some(&clients)).await;
    let (broker, port) = Broker::start_encrypted(&certificate, Some(&clients)).await;
    // The roots of the system are not those of the servers, whose authority is not trusted for good.
    let of_system = Authority::self_signed(&["127.0.0.1"]);
    let (receiver, collector) = (Receiver::https(&authority), Receiver::https(&of_system));
    let mut world = World::with()
        .on_postgres(postgres.url())
        .on_broker(broker.url())
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_WEBHOOK_CA_FILE", &file)
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url(""))
        .set("SSL_CERT_FILE", &of_system.file().display().to_string())
        .ingests(0)
        .workers(0)
        .start()
        .await;
    let roots = files.copy("roots.pem", authority.file());
    let [own, key] = files.write("own", &clients.certificate(&["connect"]));
    encrypt(&mut world, port, [&roots, &own, &key]);
    world.subscribe(&receiver.url("/hooks")).await;
    world.add_ingest().await;
    world.add_worker().await;
    world.add_dispatcher().await;
    let console = Program::console(world.settings()).await;
    let all = ConsoleWorld { console: Some(console), world };
    let (console, world) = (all.program(), &all.world);
    world.until_ready().await;
    world.accept(event("enquiry.submitted").email("ana@example.com").name("Ana")).await;
    receiver.wait_for(1).await;
    collector.wait_for(1).await;
    assert_all_encrypted(world, &broker).await;
    // The settings area connects to the broker for this page.
    let operator = all.operator().await;
    assert_eq!(operator.get("/queues/crm").await.status, 200);

    // Postgres and its clients change to certificates of new authorities.
    let (next, next_clients) = (Authority::new(), Authority::new());
    let renewed = next.certificate(&["localhost"]);
    postgres.encrypt(&renewed, Some(&next_clients)).await;
    let of_programs = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name <> ''";
    postgres.execute(of_programs).await;
    let refused = "not signed by a trusted authority";
    until_all_logged(world, &[refused]).await;
    console.until_logged(refused).await;
    fs::copy(next.file(), &roots).expect("new roots");
    files.write("own", &next_clients.certificate(&["connect"]));
    world.until_ready().await;
    console.until_ready().await;
    world.accept_with_retries(event("enquiry.submitted").email("bo@example.com").name("Bo")).await;
    receiver.wait_for(2).await;

    // So does RabbitMQ. Before that, its certificate is of an authority that is trusted no longer.
    broker.control(&["close_all_connections", "renewal"]).await;
    let not_listed = "an authority's own certificate (CA:TRUE) that cacertfile does not list";
    until_all_logged(world, &[&format!("localhost:{port}"), not_listed]).await;
    assert_eq!(operator.get("/queues/crm").await.status, 503);
    broker.renew(&renewed, Some(&next_clients)).await;
    world.until_ready().await;
    assert_eq!(operator.get("/queues/crm").await.status, 200);
    world.accept_with_retries(event("enquiry.submitted").email("cy@example.com").name("Cy")).await;
    receiver.wait_for(3).await;
    assert_all_encrypted(world, &broker).await;
}
