//! Certificates that expire soon.

use super::{until_fixed, until_found, world_without_programs};
use tests::dedicated_servers::Broker;
use tests::{Authority, Connectctl};

#[tokio::test]
async fn a_certificate_of_postgres_that_expires_soon_is_found() {
    let (postgres, world) = world_without_programs().await;
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
    for (days, level) in [(20, Some("warning")), (2000, None)] {
        let certificate = authority.certificate_for_days(&["localhost"], days);
        let (_broker, port) = Broker::start_encrypted(&certificate, None).await;
        let url =
            format!("amqps://guest:guest@localhost:{port}/%2f?cacertfile={}", authority.file().display());
        let ctl = Connectctl::with(Vec::new()).and("AMQP_URL", &url);
        match level {
            Some(level) => drop(until_found(&ctl, &[], level, "broker.tls", "expires at").await),
            None => until_fixed(&ctl, &[], "broker.tls", "").await,
        }
    }
}
