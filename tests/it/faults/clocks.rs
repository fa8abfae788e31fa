//! Machines that show different times.

use crate::records::post;
use serde_json::json;
use tests::{MAX_WAIT, Program, Receiver, World, eventually, text};

#[tokio::test]
async fn a_worker_a_minute_ahead_and_a_dispatcher_ten_minutes_behind_lose_nothing_and_say_so() {
    let receiver = Receiver::http();
    let world = World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").workers(0).start().await;
    let subscription = world.subscribe(&receiver.url("/")).await;
    let shifted = async |name: &str, by: &str| {
        let mut settings = world.settings().to_vec();
        // The programs measure durations by a clock that stays as it is.
        let shift = [
            ("LD_PRELOAD", "/usr/$LIB/faketime/libfaketime.so.1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME", by),
        ];
        settings.extend(shift.map(|(name, value)| (name.to_owned(), value.to_owned())));
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

    let response =
        post(&world, "/leads", json!({"contact": {"email": "ana@example.com", "name": "Ana"}})).await;
    assert_eq!(response.status, 201, "{response:?}");
    let webhook = &receiver.wait_for(1).await[0];
    assert_eq!(webhook.verify(text(&subscription["secret"])), Ok(()), "receivers refuse old signatures");
    for (program, difference) in [(&worker, 60.0), (&dispatcher, -600.0)] {
        let shown = program.metrics().await.sum("connect_clock_difference_seconds", &[]);
        assert!((shown - difference).abs() < 5.0, "{} shows {shown}", program.name());
    }
}
