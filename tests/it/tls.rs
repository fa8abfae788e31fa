//! TLS to Postgres and RabbitMQ (docs/settings.md): verified always, no fallback to plain text, and errors that say
//! what was wrong; all programs with it, and certificates that are renewed while they run.

use crate::console::ConsoleWorld;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tests::dedicated_servers::{Broker, Postgres};
use tests::{Authority, Certificate, Connectctl, MAX_WAIT, Program, Receiver, World, event, eventually, until};

/// A directory for certificates, which is removed with its value.
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("connect-tls-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a new directory");
        Self(directory)
    }

    pub(crate) fn copy(&self, name: &str, of: &Path) -> String {
        let path = self.0.join(name);
        fs::copy(of, &path).expect("a copy");
        path.display().to_string()
    }

    pub(crate) fn write(&self, name: &str, pair: &Certificate) -> [String; 2] {
        [("crt", &pair.certificate), ("key", &pair.key)].map(|(suffix, text)| {
            let path = self.0.join(format!("{name}.{suffix}"));
            fs::write(&path, text).expect("a file");
            path.display().to_string()
        })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A panic here would hide the test's own.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// `connectctl queue list` with this URL.
async fn refusal(url: &str) -> String {
    Connectctl::with(Vec::new()).and("AMQP_URL", url).refusal(&["queue", "list"]).await
}

async fn assert_refused(url: &str, parts: &[&str]) {
    let says = refusal(url).await;
    assert!(parts.iter().all(|part| says.contains(part)), "{url}: {parts:?}, got {says}");
}

async fn assert_accepted(connectctl: &Connectctl) {
    let queues = connectctl.list(&["queue", "list"]).await;
    assert!(!queues.is_empty());
}

#[tokio::test]
async fn a_broker_of_a_private_authority_is_accepted_and_every_other_one_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (broker, port) = Broker::start_encrypted(&authority.certificate(&["localhost"]), None).await;
    let url = |host: &str, query: &str| format!("amqps://guest:guest@{host}:{port}/%2f?{query}");
    let roots = |authority: &Authority| format!("cacertfile={}", authority.file().display());
    let trusted = roots(&authority);

    let connectctl = |url: &str| Connectctl::with(Vec::new()).and("AMQP_URL", url);
    assert_accepted(&connectctl(&url("localhost", &trusted))).await;
    let named = format!("{trusted}&server_name_indication=localhost");
    assert_accepted(&connectctl(&url("127.0.0.1", &named))).await;
    let file = authority.file().display().to_string();
    assert_accepted(&connectctl(&url("localhost", "")).and("SSL_CERT_FILE", &file)).await;

    let untrusted = "not signed by a trusted authority; set cacertfile";
    assert_refused(&url("localhost", &roots(&other)), &[untrusted, &format!("localhost:{port}")]).await;
    assert_refused(&url("127.0.0.1", &trusted), &["is not valid for 127.0.0.1; it names localhost"]).await;
    let unencrypted = url("localhost", "").replace("amqps:", "amqp:");
    assert_refused(&unencrypted, &["if the broker expects TLS on this port, use amqps://"]).await;
    let plain = broker.url().rsplit_once('@').expect("a URL with a user").1;
    let says = refusal(&format!("amqps://guest:guest@{plain}?{trusted}")).await;
    assert!(says.contains("the server does not use TLS on this port"), "{says}");

    broker.renew(&authority.expired_certificate(&["localhost"]), None).await;
    assert_refused(&url("localhost", &trusted), &["the server's certificate expired at 2020-01-01T00:00:00"]).await;
}

#[tokio::test]
async fn a_broker_that_requires_a_client_certificate_gets_one() {
    let (authority, clients, files) = (Authority::new(), Authority::new(), Files::new());
    let (_broker, port) = Broker::start_encrypted(&authority.certificate(&["localhost"]), Some(&clients)).await;
    let url = format!("amqps://guest:guest@localhost:{port}/%2f?cacertfile={}", authority.file().display());
    // The broker's own reason may be lost, because it closes the connection at once.
    assert_refused(&url, &["client certificate", "certfile"]).await;
    let with = |[certificate, key]: [String; 2]| format!("{url}&certfile={certificate}&keyfile={key}");
    let foreign = with(files.write("foreign", &authority.certificate(&["connect"])));
    assert_refused(&foreign, &["client certificate", "certfile"]).await;
    let own = with(files.write("own", &clients.certificate(&["connect"])));
    assert_accepted(&Connectctl::with(Vec::new()).and("AMQP_URL", &own)).await;
}

/// Waits until a command with this URL fails with an error that contains all of `parts`.
async fn until_refused(url: &str, parts: &[&str]) {
    let connectctl = Connectctl::for_database(url);
    eventually(&format!("{url} is refused with {parts:?}"), MAX_WAIT, async || {
        let ran = connectctl.run(&["tenant", "list"]).await;
        let says = &ran.errors;
        let is_expected = ran.code == Some(1) && says.lines().count() == 1;
        if is_expected && parts.iter().all(|part| says.contains(part)) { Ok(()) } else { Err(format!("{ran:?}")) }
    })
    .await;
}

/// Waits until a command with this URL succeeds.
async fn until_accepted(connectctl: &Connectctl) {
    let ran = async || connectctl.run(&["migrate", "--json"]).await;
    until("the server is accepted", ran, |ran| ran.code == Some(0)).await;
}

#[tokio::test]
async fn a_server_is_verified_and_verifies_its_clients_and_the_channel() {
    let postgres = Postgres::start().await;
    a_server_of_a_private_authority_is_accepted_and_every_other_one_refused(&postgres).await;
    a_server_that_requires_a_client_certificate_gets_one(&postgres).await;
    channel_binding_is_used_where_it_is_required(&postgres).await;
}

async fn a_server_of_a_private_authority_is_accepted_and_every_other_one_refused(postgres: &Postgres) {
    let (authority, other) = (Authority::new(), Authority::new());
    let roots = |authority: &Authority| format!("sslrootcert={}", authority.file().display());
    let by_name = postgres.url_of_host("localhost");
    let port = by_name.rsplit_once(':').and_then(|(_, rest)| rest.split_once('/')).expect("a port").0;
    let verified = format!("{by_name}?sslmode=verify-full&{}", roots(&authority));

    let address = format!("localhost:{port}: ");
    until_refused(&verified, &[&address, "the server does not offer TLS"]).await;

    postgres.encrypt(&authority.certificate(&["localhost"]), None).await;
    until_accepted(&Connectctl::for_database(&verified)).await;
    // The weaker modes verify as well.
    for mode in ["require", "verify-ca", "verify-full"] {
        let untrusted = format!("{by_name}?sslmode={mode}&{}", roots(&other));
        let what = ["not signed by a trusted authority; set sslrootcert", &address];
        until_refused(&untrusted, &what).await;
        let by_address = format!("{}?sslmode={mode}&{}", postgres.url(), roots(&authority));
        until_refused(&by_address, &["is not valid for 127.0.0.1; it names localhost"]).await;
    }
    // A host that is not this machine's is reached with TLS by default, and verified against the system's authorities.
    let remote = format!("{}?hostaddr=127.0.0.1", postgres.url_of_host("localhost"));
    let system = Connectctl::for_database(&format!("{remote}&sslmode=require"));
    let file = |authority: &Authority| authority.file().display().to_string();
    until_accepted(&system.clone().and("SSL_CERT_FILE", &file(&authority))).await;
    let says = system.and("SSL_CERT_FILE", &file(&other)).refusal(&["tenant", "list"]).await;
    assert!(says.contains("not signed by a trusted authority"), "{says}");

    postgres.encrypt(&authority.expired_certificate(&["localhost"]), None).await;
    until_refused(&verified, &["the server's certificate expired at 2020-01-01T00:00:00"]).await;
}

async fn a_server_that_requires_a_client_certificate_gets_one(postgres: &Postgres) {
    let (authority, clients, files) = (Authority::new(), Authority::new(), Files::new());
    postgres.encrypt(&authority.certificate(&["localhost"]), Some(&clients)).await;
    let verified =
        format!("{}?sslmode=verify-full&sslrootcert={}", postgres.url_of_host("localhost"), authority.file().display());
    until_refused(&verified, &["connection requires a valid client certificate"]).await;
    let with = |[certificate, key]: [String; 2]| format!("{verified}&sslcert={certificate}&sslkey={key}");
    let foreign = with(files.write("foreign", &authority.certificate(&["connect"])));
    until_refused(&foreign, &["the server does not accept the client certificate of sslcert (UnknownCA)"]).await;
    until_accepted(&Connectctl::for_database(&with(files.write("own", &clients.certificate(&["connect"]))))).await;
    // The files are checked when the settings are read.
    let [certificate, _] = files.write("one", &clients.certificate(&["connect"]));
    let [_, key] = files.write("two", &clients.certificate(&["connect"]));
    let says = Connectctl::for_database(&with([certificate, key])).refusal(&["tenant", "list"]).await;
    assert!(says.contains("setting DATABASE_URL: sslkey "), "{says}");
    assert!(says.contains("is not the private key of sslcert"), "{says}");
}

async fn channel_binding_is_used_where_it_is_required(postgres: &Postgres) {
    let authority = Authority::new();
    postgres.encrypt(&authority.certificate(&["localhost"]), None).await;
    let verified = format!(
        "{}?sslmode=verify-full&sslrootcert={}&channel_binding=",
        postgres.url_of_host("localhost"),
        authority.file().display()
    );
    // A server that asks for no password proves nothing.
    until_refused(&format!("{verified}require"), &["channel binding"]).await;
    postgres.execute("CREATE ROLE bound LOGIN SUPERUSER PASSWORD 'secret'").await;
    postgres.require_password().await;
    let (_, place) = verified.split_once('@').expect("a user");
    for binding in ["require", "prefer", "disable"] {
        let url = format!("postgres://bound:secret@{place}{binding}");
        until_accepted(&Connectctl::for_database(&url)).await;
    }
}

/// Makes the programs of `world` use TLS to both servers.
fn encrypt(world: &mut World, port: u16, [roots, certificate, key]: [&str; 3]) {
    let place = world.database.url().replace("127.0.0.1", "localhost");
    let url = format!("{place}?sslmode=verify-full&sslrootcert={roots}&sslcert={certificate}&sslkey={key}");
    world.set("DATABASE_URL", &url);
    world.set(
        "AMQP_URL",
        &format!("amqps://guest:guest@localhost:{port}/%2f?cacertfile={roots}&certfile={certificate}&keyfile={key}"),
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
    let sessions = "SELECT s.application_name AS name, t.ssl FROM pg_stat_activity s JOIN pg_stat_ssl t USING (pid)
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
