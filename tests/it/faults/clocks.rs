//! Machines that show different times.

use crate::records::post;
use chrono::{DateTime, Utc};
use common::clock;
use serde_json::json;
use tests::{MAX_WAIT, Program, Receiver, World, eventually, text};

/// Settings of a program whose clock is wrong by so many seconds. Durations are measured by a clock that stays as it is.
fn shift(by: &str) -> [(&str, &str); 3] {
    [
        ("LD_PRELOAD", "/usr/$LIB/faketime/libfaketime.so.1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("FAKETIME", by),
    ]
}

#[tokio::test]
async fn a_worker_a_minute_ahead_and_a_dispatcher_ten_minutes_behind_lose_nothing_and_say_so() {
    let receiver = Receiver::http();
    let world = World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").workers(0).start().await;
    let subscription = world.subscribe(&receiver.url("/")).await;
    let shifted = async |name: &str, by: &str| {
        let mut settings = world.settings().to_vec();
        settings.extend(shift(by).map(|(name, value)| (name.to_owned(), value.to_owned())));
        let mut program = Program::spawn(name, &settings);
        program.until_listening().await;
        program
    };
    let worker = shifted("connect-worker", "+60").await;
    worker.until_ready().await;
    let dispatcher = shifted("connect-dispatcher", "-600").await;
    eventually("the dispatcher knows that its clock differs", MAX_WAIT, async || {
        let says = dispatcher.until_unready().await;
        if says["checks"]["clock"] == false { Ok(()) } else { Err(says.to_string()) }
    })
    .await;

    // Whatever the clock of an operator's machine shows, a link can be used for as long as it says.
    let shifted =
        shift("-600").into_iter().fold(world.connectctl.clone(), |all, (name, value)| all.and(name, value));
    let link = shifted.json(&["console", "login", "--role", "operator"]).await;
    let left = text(&link["expiresAt"]).parse::<DateTime<Utc>>().expect("a time") - clock::now();
    assert!((3..=5).contains(&left.num_minutes()), "{link}");

    let response =
        post(&world, "/leads", json!({"contact": {"email": "ana@example.com", "name": "Ana"}})).await;
    assert_eq!(response.status, 201, "{response:?}");
    let webhook = &receiver.wait_for(1).await[0];
    assert_eq!(webhook.verify(text(&subscription["secret"])), Ok(()), "receivers refuse old signatures");
    for (program, difference) in [(&worker, 60.0), (&dispatcher, -600.0)] {
        let shown = program.metrics().await.sum("connect_clock_difference_seconds", &[]);
        assert!((shown - difference).abs() < 5.0, "{} shows {shown}", program.name());
    }
    let lag = worker.metrics().await.sum("connect_queue_lag_seconds_sum", &[("queue", "records")]);
    assert!(lag < 30.0, "the write waited {lag} s");
}
