//! TLS to RabbitMQ: what is verified, and what is said when it fails.

use super::Files;
use tests::dedicated_servers::Broker;
use tests::{Authority, Connectctl};

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
    assert_refused(&url("localhost", &trusted), &["the server's certificate expired at 2020-01-01T00:00:00"])
        .await;
}

#[tokio::test]
async fn a_broker_that_requires_a_client_certificate_gets_one() {
    let (authority, clients, files) = (Authority::new(), Authority::new(), Files::new());
    let (_broker, port) =
        Broker::start_encrypted(&authority.certificate(&["localhost"]), Some(&clients)).await;
    let url = format!("amqps://guest:guest@localhost:{port}/%2f?cacertfile={}", authority.file().display());
    // The broker's own reason may be lost, because it closes the connection at once.
    assert_refused(&url, &["client certificate", "certfile"]).await;
    let with = |[certificate, key]: [String; 2]| format!("{url}&certfile={certificate}&keyfile={key}");
    let foreign = with(files.write("foreign", &authority.certificate(&["connect"])));
    assert_refused(&foreign, &["client certificate", "certfile"]).await;
    let own = with(files.write("own", &clients.certificate(&["connect"])));
    assert_accepted(&Connectctl::with(Vec::new()).and("AMQP_URL", &own)).await;
}
