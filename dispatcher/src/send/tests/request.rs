//! What a receiver gets (specification: Delivery request, Outbound webhook signature).

use super::*;
use common::trace::TraceContext;

const NAMES: [&str; 14] = [
    "Host", "Content-Type", "Accept", "User-Agent", "X-Connect-Signature", "X-Connect-Tenant", "X-Connect-Event",
    "X-Connect-Delivery", "X-Connect-Sequence", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Traceparent",
    "Content-Length",
];

#[tokio::test]
async fn sends_the_headers_of_the_specification_and_the_unchanged_body() {
    let receiver = Receiver::http();
    let attempt = send(&local(LONG), &receiver.url("/hooks/a%20b?key=1&x=[2]")).await;
    assert_eq!(attempt.outcome, Outcome::Delivered, "{attempt:?}");
    assert_eq!((attempt.status, attempt.error, attempt.response), (Some(204), None, None));

    let [got] = &receiver.received()[..] else { panic!("one request") };
    assert_eq!((got.method(), got.target()), ("POST", "/hooks/a%20b?key=1&x=[2]"));
    assert_eq!(got.body, BODY);
    let names: Vec<&str> = got.headers().map(|(name, _)| name).collect();
    assert_eq!(names, NAMES);
    let values = ["Host", "Content-Type", "X-Connect-Tenant", "X-Connect-Event", "X-Connect-Delivery"]
        .map(|name| got.header(name));
    assert_eq!(
        values,
        [
            receiver.address().to_string().as_str(),
            "application/json",
            "acme",
            "lead.assigned",
            "0195f0c2-7a31-7c55-9d10-3f6f2b8f1a01",
        ]
    );
    assert!(TraceContext::parse(got.header("traceparent")).is_some());
    assert_eq!(got.header("x-connect-sequence"), "42");
    assert_eq!(got.header("accept"), "*/*");
    assert_eq!(got.header("user-agent"), concat!("Connect/", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn during_a_rotation_both_secrets_sign_and_the_new_one_is_first() {
    let receiver = Receiver::http();
    let url = ReceiverUrl::parse(&receiver.url("/")).unwrap();
    let secrets = [SECRET, OLD_SECRET].map(|secret| Secret::new(secret.to_owned()));
    local(LONG).send(&webhook(&url, &secrets)).await;

    let [got] = &receiver.received()[..] else { panic!("one request") };
    let (both, other) = (got.header("x-connect-signature"), "whsec_other");
    assert_eq!((got.verify(SECRET), got.verify(OLD_SECRET)), (Ok(()), Ok(())));
    assert!(got.verify(other).is_err());
    let (t, macs) = both.split_once(",v1=").unwrap();
    let (new, old) = macs.split_once(",v1=").unwrap();
    for (secret, mac) in [(SECRET, new), (OLD_SECRET, old)] {
        let t = t.strip_prefix("t=").unwrap().parse().unwrap();
        let signed = common::signature::Signed::Body(&got.body);
        assert!(common::signature::sign(secret.as_bytes(), t, signed).ends_with(mac), "{both}");
    }
}

#[tokio::test]
async fn sends_the_host_in_its_canonical_form() {
    let receiver = Receiver::http();
    let port = receiver.address().port();
    send(&local(LONG), &format!("HTTP://LocalHost:{port}")).await;
    let [got] = &receiver.received()[..] else { panic!("one request") };
    assert_eq!((got.header("host"), got.target()), (format!("localhost:{port}").as_str(), "/"));
}

#[tokio::test]
async fn verifies_certificates_by_name_and_by_address() {
    let authority = Authority::new();
    let receiver = Receiver::https(&authority);
    let sender = trusting(&authority, LONG);
    for url in [receiver.url("/"), receiver.url_by_name("/")] {
        let attempt = send(&sender, &url).await;
        assert_eq!(attempt.outcome, Outcome::Delivered, "{url}: {attempt:?}");
    }
    assert!(receiver.received().iter().all(|got| got.verify(SECRET).is_ok()));
}
