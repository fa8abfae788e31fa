//! The commonest home-made certificate is self-signed and an authority's. Where it is listed as trusted, it is accepted, as by
//! psql and curl.

use tests::dedicated_servers::{Broker, Postgres};
use tests::{Authority, Receiver, World, event};

#[tokio::test]
async fn a_listed_self_signed_certificate_is_accepted_by_every_kind_of_connection() {
    let own = Authority::self_signed(&["localhost", "127.0.0.1"]);
    let (file, certificate) = (own.file().display().to_string(), own.certificate(&[]));
    let postgres = Postgres::start().await;
    postgres.encrypt(&certificate, None).await;
    let (broker, port) = Broker::start_encrypted(&certificate, None).await;
    let (receiver, collector) = (Receiver::https(&own), Receiver::https(&own));
    let mut world = World::with()
        .on_postgres(postgres.url())
        .on_broker(broker.url())
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_WEBHOOK_CA_FILE", &file)
        .set("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url(""))
        .set("SSL_CERT_FILE", &file)
        .ingests(0)
        .workers(0)
        .start()
        .await;
    let create = ["subscription", "create", "--tenant", "acme", "--url", &receiver.url("/hooks")];
    world.connectctl.clone().and("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").json(&create).await;
    let place = world.database.url().replace("127.0.0.1", "localhost");
    world.set("DATABASE_URL", &format!("{place}?sslmode=verify-full&sslrootcert={file}"));
    world.set("AMQP_URL", &format!("amqps://guest:guest@localhost:{port}/%2f?cacertfile={file}"));
    world.add_ingest().await;
    world.add_worker().await;
    world.add_dispatcher().await;
    world.until_ready().await;
    world.accept(event("enquiry.submitted").email("ana@example.com").name("Ana")).await;
    receiver.wait_for(1).await;
    collector.wait_for(1).await;
}
