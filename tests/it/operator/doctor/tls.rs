//! Certificates that expire soon.

use super::{findings, of, until_fixed, until_found, world_without_programs};
use crate::tls::Files;
use tests::dedicated_servers::{Broker, Postgres};
use tests::{Authority, Connectctl, World};

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
        let url =
            format!("{base}?sslmode=verify-full&sslrootcert={roots}&sslcert={certificate}&sslkey={key}");
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
