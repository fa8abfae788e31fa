//! Which addresses are connected to, and how (D27). The query of a URL is sealed at rest and never shown.

use super::OutboundWorld;
use serde_json::{Value, json};
use tests::{MAX_WAIT, Program, Receiver, World, eventually};

/// A world whose subscriptions are created in development mode, while its dispatcher runs in production mode. The ports of
/// both receivers are allowed.
async fn strict(plain: &Receiver) -> OutboundWorld {
    let settings = World::with().set("CONNECT_WEBHOOK_ATTEMPTS", "2");
    let mut outbound = OutboundWorld::without_dispatcher(settings).await;
    outbound.world.set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "false");
    let ports = format!("{},{}", outbound.receiver.address().port(), plain.address().port());
    outbound.world.set("CONNECT_WEBHOOK_PORTS", &ports);
    outbound.world.add_dispatcher().await;
    outbound
}

#[tokio::test]
async fn a_non_public_address_is_refused_at_each_attempt_and_never_connected_to() {
    let plain = Receiver::http();
    let outbound = strict(&plain).await;
    let port = outbound.receiver.address().port();
    let cases = [
        (outbound.receiver.url("/address"), "url loopback".to_owned()),
        (format!("https://[::ffff:127.0.0.1]:{port}/mapped"), "url loopback".to_owned()),
        (outbound.receiver.url_by_name("/name"), "the host is not public".to_owned()),
        ("https://1.1.1.1:22/".to_owned(), "url must have a port that CONNECT_WEBHOOK_PORTS lists".to_owned()),
        (plain.url("/plain"), "url must begin with https://".to_owned()),
        (plain.url_by_name("/plain-name"), "url must begin with https://".to_owned()),
    ];
    let mut subscribed = Vec::new();
    for (url, error) in cases {
        subscribed.push((error, outbound.subscribe_url(&url, &[]).await));
    }
    outbound.open_lead_until("dead", subscribed.len() as i64).await;
    for (error, subscription) in &subscribed {
        let attempts = outbound.attempts(subscription).await;
        assert_eq!(attempts.len(), 2, "{error}: {attempts:?}");
        for attempt in attempts {
            assert_eq!((&attempt["status"], &attempt["response"]), (&Value::Null, &Value::Null), "{attempt}");
            // A name may have an address of either family.
            assert_eq!(attempt["error"].as_str().expect("an error").replace("::1", "127.0.0.1"), *error);
        }
    }
    assert_eq!((outbound.receiver.accepted(), plain.accepted()), (0, 0), "no connection was opened");
    let refused = 2.0 * subscribed.len() as f64;
    outbound.until_metric("connect_webhook_attempts_total", &[("outcome", "address_refused")], refused).await;
    outbound.until_metric("connect_webhook_attempts_total", &[], refused).await;
}

#[tokio::test]
async fn proxy_environment_variables_are_ignored() {
    let mut outbound = OutboundWorld::without_dispatcher(World::with()).await;
    let (proxy, plain) = (Receiver::http(), Receiver::http());
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"] {
        for name in [name.to_owned(), name.to_lowercase()] {
            outbound.world.set(&name, &proxy.url(""));
        }
    }
    outbound.world.add_dispatcher().await;
    outbound.subscribe("/direct", &[]).await;
    outbound.subscribe_url(&plain.url("/direct"), &[]).await;
    outbound.open_lead_until("delivered", 2).await;
    assert_eq!((outbound.receiver.count(), plain.count(), proxy.accepted()), (1, 1, 0));
}

#[tokio::test]
async fn receivers_of_an_unknown_authority_require_the_extra_roots() {
    let mut outbound = OutboundWorld::without_dispatcher(World::with().set("CONNECT_WEBHOOK_ATTEMPTS", "1")).await;
    outbound.subscribe("/hooks", &[]).await;
    let file = outbound.authority.file().to_str().expect("a path in Unicode").to_owned();
    outbound.world.set("CONNECT_WEBHOOK_CA_FILE", "");
    outbound.world.add_dispatcher().await;
    outbound.open_lead_until("dead", 1).await;
    assert_eq!(outbound.receiver.count(), 0);

    outbound.world.set("CONNECT_WEBHOOK_CA_FILE", &file);
    outbound.world.restart_dispatcher().await;
    outbound.open_lead_until("delivered", 1).await;
    assert_eq!(outbound.receiver.count(), 1);
}

#[tokio::test]
async fn warns_of_development_mode_at_each_start() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    for (allowed, is_warned_of) in [("true", true), ("false", false)] {
        world.set("CONNECT_WEBHOOK_ALLOW_PRIVATE", allowed);
        world.dispatchers.clear();
        world.add_dispatcher().await;
        let has_warned = eventually("the warning or the line after it is logged", MAX_WAIT, async || {
            let logs = world.dispatchers[0].logs();
            let has_warned = logs.contains("CONNECT_WEBHOOK_ALLOW_PRIVATE is set");
            // This line is logged after the warning.
            let has_gone_on = logs.contains("took slots");
            if has_warned || has_gone_on { Ok(has_warned) } else { Err(logs) }
        })
        .await;
        assert_eq!(has_warned, is_warned_of, "{allowed}");
        let console = Program::console(world.settings()).await;
        assert_eq!(console.logs().contains("CONNECT_WEBHOOK_ALLOW_PRIVATE is set"), is_warned_of, "{allowed}");
    }
}

const TOKEN: &str = "s3cret-token";

#[tokio::test]
async fn a_token_in_a_url_reaches_only_the_receiver() {
    let outbound = OutboundWorld::start().await;
    let path = format!("/hooks?token={TOKEN}&site=1&{TOKEN}");
    let subscription = outbound.subscribe(&path, &[]).await;
    outbound.open_lead().await;
    let received = outbound.receiver.wait_for(1).await;
    assert_eq!(received[0].target(), path);

    let shown = outbound.receiver.url_by_name("/hooks?token=***&site=***&***");
    let listed = outbound.world.connectctl.list(&["subscription", "list", "--tenant", "acme"]).await;
    assert_eq!(listed[0]["url"], json!(shown));
    let paused = outbound.world.connectctl.json(&["subscription", "pause", &subscription.id]).await;
    assert_eq!(paused["url"], json!(shown));
    let stored = "SELECT row_to_json(s)::text AS row, position(convert_to($1, 'UTF8') in url_sealed) AS place
                  FROM subscriptions s";
    let stored = outbound.world.database.rows(stored, &[&TOKEN]).await;
    assert!(!stored[0]["row"].to_string().contains(TOKEN), "{stored:?}");
    assert_eq!(stored[0]["place"], json!(0), "{stored:?}");
    for dispatcher in &outbound.world.dispatchers {
        assert!(!dispatcher.logs().contains(TOKEN));
    }
}
