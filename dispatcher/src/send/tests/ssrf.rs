//! Each connection goes to an address that was checked for it (D27).

use super::*;
use serde::Deserialize;

const PUBLIC: &str = "93.184.215.14";
const NAME: &str = "hooks.example";

fn public_only(network: &Arc<FakeNetwork>, authority: Option<&Authority>) -> Sender {
    let settings = settings(false, LONG, authority.map(Authority::file));
    Sender::with_network(Arc::<FakeNetwork>::clone(network), &settings).unwrap()
}

/// A receiver that acts as a public one and closes the connection after each response.
fn closing(authority: &Authority) -> Receiver {
    let receiver = Receiver::https_for(authority, &[NAME]);
    receiver.respond_to_all(Behavior::status(200).with_header("connection", "close"));
    receiver
}

#[tokio::test]
async fn refuses_a_host_that_resolves_to_a_private_address_later() {
    let authority = Authority::new();
    let receiver = closing(&authority);
    let network = FakeNetwork::answering(&[&[PUBLIC], &["127.0.0.1"]], Some(receiver.address()));
    let sender = public_only(&network, Some(&authority));

    let first = send(&sender, "https://hooks.example/x").await;
    assert_eq!(first.outcome, Outcome::Delivered, "{first:?}");
    receiver.wait_for_connections(0).await;
    let second = send(&sender, "https://hooks.example/x").await;
    assert_eq!(second.outcome, Outcome::AddressRefused);
    assert_eq!(second.error.as_deref(), Some("the host is not public"));
    assert_eq!((receiver.count(), receiver.accepted()), (1, 1));
    assert_eq!(network.dialed(), ["93.184.215.14:443"]);
}

#[tokio::test]
async fn resolves_once_per_connection_and_connects_to_a_resolved_address() {
    let authority = Authority::new();
    let receiver = closing(&authority);
    let answers: [&[&str]; 2] = [&[PUBLIC], &["::ffff:93.184.215.15", "93.184.215.16"]];
    let network = FakeNetwork::answering(&answers, Some(receiver.address()));
    let sender = public_only(&network, Some(&authority));

    for expected in 1..=2 {
        assert_eq!(send(&sender, "https://Hooks.example:8443/").await.outcome, Outcome::Delivered);
        assert_eq!(network.asked().len(), expected);
        receiver.wait_for_connections(0).await;
    }
    assert_eq!(network.asked(), [NAME, NAME]);
    assert_eq!(network.dialed(), ["93.184.215.14:8443", "93.184.215.15:8443"]);
}

#[tokio::test]
async fn tries_at_most_eight_addresses_in_order() {
    let network = FakeNetwork::answering(&[&["8.8.8.8", "2606:4700::1111", "8.8.4.4"]], None);
    let attempt = send(&public_only(&network, None), "https://hooks.example/").await;
    assert_eq!(attempt.outcome, Outcome::ConnectFailed);
    assert_eq!(network.dialed(), ["8.8.8.8:443", "[2606:4700::1111]:443", "8.8.4.4:443"]);
    assert!(attempt.error.unwrap().starts_with("cannot connect to 8.8.4.4:443: "));

    let many: Vec<String> = (1..=20).map(|last| format!("8.8.8.{last}")).collect();
    let network = FakeNetwork::answering(&[&many.iter().map(String::as_str).collect::<Vec<_>>()], None);
    send(&public_only(&network, None), "https://hooks.example/").await;
    assert_eq!(network.dialed().len(), 8);
}

#[tokio::test]
async fn a_name_without_an_address_does_not_resolve() {
    let network = FakeNetwork::answering(&[&[]], None);
    let sender = public_only(&network, None);
    for _ in 0..2 {
        let attempt = send(&sender, "https://hooks.example/").await;
        assert_eq!(attempt.outcome, Outcome::NotResolved, "{attempt:?}");
        assert!(attempt.error.unwrap().starts_with("host does not resolve: "));
    }
    assert!(network.dialed().is_empty());
}

#[tokio::test]
async fn a_name_is_looked_up_for_the_owner_of_the_attempt() {
    let network = FakeNetwork::answering(&[], None);
    let (owner, sender) = (Uuid::from_u128(7), public_only(&network, None));
    LOOK_UP_OWNER.scope(owner, send(&sender, "https://hooks.example/")).await;
    assert_eq!(*network.owners.lock(), [Some(owner)]);
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    why: String,
    url: Option<String>,
    address: Option<String>,
    resolves_to: Option<Vec<String>>,
    expect: String,
}

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Vector>,
}

#[tokio::test]
async fn every_vector_has_the_expected_outcome() {
    let vectors: Vectors = serde_json::from_str(include_str!("../../../../tests/vectors/ssrf.json")).unwrap();
    assert!(vectors.cases.len() >= 60);
    for Vector { why, url, address, resolves_to, expect } in vectors.cases {
        let answer = address.map(|address| vec![address]).or(resolves_to);
        let answer = answer.unwrap_or_else(|| vec![PUBLIC.to_owned()]);
        let network = FakeNetwork::answering(&[&answer.iter().map(String::as_str).collect::<Vec<_>>()], None);
        // A text that is not a URL is refused when a subscription is created, so the sender never gets it.
        let Ok(url) = ReceiverUrl::parse(url.as_deref().unwrap_or("https://hooks.example/")) else {
            assert_eq!(expect, "refused", "{why}");
            continue;
        };
        let attempt = public_only(&network, None).send(&webhook(&url, &[])).await;
        let (outcome, dialed) = match expect.as_str() {
            "allowed" => (Outcome::ConnectFailed, answer.len()),
            _ => (Outcome::AddressRefused, 0),
        };
        assert_eq!((attempt.outcome, network.dialed().len()), (outcome, dialed), "{why}: {attempt:?}");
    }
}
