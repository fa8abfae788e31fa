//! The dispatcher's own settings (docs/operators.md).

use futures_util::future::join_all;
use tests::{CommandOutput, MASTER_KEY, MAX_WAIT, World, eventually};

/// Starts a dispatcher with one malformed setting.
async fn start_with(name: &str, value: &str) -> CommandOutput {
    let settings = [
        ("DATABASE_URL", "postgres://connect@127.0.0.1:1/connect"),
        ("AMQP_URL", "amqp://127.0.0.1:1/%2f"),
        ("CONNECT_MASTER_KEY", MASTER_KEY),
        ("CONNECT_METRICS_ADDR", "127.0.0.1:0"),
        (name, value),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    CommandOutput::of("connect-dispatcher", &[], &settings).await
}

#[tokio::test]
async fn a_malformed_webhook_setting_ends_the_dispatcher_naming_it() {
    for (name, values) in [
        ("CONNECT_WEBHOOK_ATTEMPTS", &["0", "101", "-1", "six", "6.0", "99999999999"][..]),
        ("CONNECT_WEBHOOK_BACKOFF_BASE", &["30", "0s", "-1s", "soon"]),
        ("CONNECT_WEBHOOK_BACKOFF_CAP", &["60", "0ms", "1 hour", "forever", "31d"]),
        ("CONNECT_WEBHOOK_TIMEOUT", &["10", "0s", "ten"]),
        ("CONNECT_WEBHOOK_CONCURRENCY", &["0", "5001", "many"]),
        ("CONNECT_WEBHOOK_CONCURRENCY_EACH", &["0", "few"]),
        ("CONNECT_WEBHOOK_RESCUE_AFTER", &["0s", "later"]),
        ("CONNECT_WEBHOOK_ALLOW_PRIVATE", &["1", "yes", "TRUE!"]),
        ("CONNECT_WEBHOOK_CA_FILE", &["/no/such/file.pem", "/dev/null"]),
    ] {
        let started = join_all(values.iter().map(|value| start_with(name, value))).await;
        for (value, ran) in values.iter().zip(started) {
            assert_eq!((ran.code, ran.output.as_str()), (Some(1), ""), "{name}={value}: {ran:?}");
            assert_eq!(ran.errors.lines().count(), 1, "{name}={value}: {}", ran.errors);
            assert!(ran.errors.contains(&format!("setting {name}")), "{name}={value}: {}", ran.errors);
        }
    }
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
            let has_gone_on = logs.contains("relaying the outbox");
            if has_warned || has_gone_on { Ok(has_warned) } else { Err(logs) }
        })
        .await;
        assert_eq!(has_warned, is_warned_of, "{allowed}");
    }
}
