//! TLS to Postgres: what is verified, and what is said when it fails.

use super::Files;
use tests::dedicated_servers::Postgres;
use tests::{Authority, Connectctl, MAX_WAIT, eventually};

/// Waits until a command with this URL fails with an error that contains all of `parts`.
async fn until_refused(url: &str, parts: &[&str]) {
    let connectctl = Connectctl::for_database(url);
    eventually(&format!("{url} is refused with {parts:?}"), MAX_WAIT, async || {
        let ran = connectctl.run(&["tenant", "list"]).await;
        let says = &ran.errors;
        let is_expected = ran.code == Some(1) && says.lines().count() == 1;
        if is_expected && parts.iter().all(|part| says.contains(part)) {
            Ok(())
        } else {
            Err(format!("{ran:?}"))
        }
    })
    .await;
}

/// Waits until a command with this URL succeeds.
async fn until_accepted(connectctl: &Connectctl) {
    eventually("the server is accepted", MAX_WAIT, async || {
        let ran = connectctl.run(&["migrate", "--json"]).await;
        if ran.code == Some(0) { Ok(()) } else { Err(ran.errors) }
    })
    .await;
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
    let verified = format!(
        "{}?sslmode=verify-full&sslrootcert={}",
        postgres.url_of_host("localhost"),
        authority.file().display()
    );
    until_refused(&verified, &["connection requires a valid client certificate"]).await;
    let with = |[certificate, key]: [String; 2]| format!("{verified}&sslcert={certificate}&sslkey={key}");
    let foreign = with(files.write("foreign", &authority.certificate(&["connect"])));
    until_refused(&foreign, &["the server does not accept the client certificate of sslcert (UnknownCA)"])
        .await;
    until_accepted(&Connectctl::for_database(&with(files.write("own", &clients.certificate(&["connect"])))))
        .await;
    // The files are checked when the settings are read.
    let [certificate, _] = files.write("one", &clients.certificate(&["connect"]));
    let [_, key] = files.write("two", &clients.certificate(&["connect"]));
    let says = Connectctl::for_database(&with([certificate, key])).refusal(&["tenant", "list"]).await;
    assert!(
        says.contains("setting DATABASE_URL: sslkey ") && says.contains("is not the private key of sslcert"),
        "{says}"
    );
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
