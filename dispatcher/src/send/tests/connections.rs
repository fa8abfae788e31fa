//! Connections are reused while they are usable, and closed otherwise.

use super::*;

async fn deliver(sender: &Sender, receiver: &Receiver, times: usize) {
    for _ in 0..times {
        let attempt = send(sender, &receiver.url("/")).await;
        assert_eq!(attempt.outcome, Outcome::Delivered, "{attempt:?}");
    }
}

#[tokio::test]
async fn reuses_a_connection_after_small_bodies_and_failures() {
    let authority = Authority::new();
    let sender = trusting(&authority, LONG);
    for receiver in [Receiver::http(), Receiver::https(&authority)] {
        receiver.respond_to_next(
            "/",
            [Behavior::status(200), Behavior::status(200).with_body("x".repeat(2_000)), Behavior::status(204)],
        );
        receiver.respond("/failing", Behavior::status(500).with_body("sorry"));
        deliver(&sender, &receiver, 3).await;
        send(&sender, &receiver.url("/failing")).await;
        deliver(&sender, &receiver, 1).await;
        assert_eq!((receiver.count(), receiver.accepted()), (5, 1));
    }
}

#[tokio::test]
async fn retries_on_a_new_connection_when_an_idle_one_was_closed() {
    let authority = Authority::new();
    let sender = trusting(&authority, LONG);
    for receiver in [Receiver::http(), Receiver::https(&authority)] {
        for round in 1..=20 {
            deliver(&sender, &receiver, 1).await;
            receiver.wait_for_idle(1).await;
            receiver.close_idle().await;
            assert_eq!((receiver.count(), receiver.accepted()), (round, round));
        }
    }
}

#[tokio::test]
async fn idle_connections_to_a_receiver_are_bounded() {
    let receiver = Receiver::http();
    receiver.respond_to_all(Behavior::status(204).held());
    receiver.hold();
    let sender = local(LONG);
    let sends = futures_util::future::join_all((0..40).map(|_| deliver(&sender, &receiver, 1)));
    let released = async {
        receiver.wait_for(40).await;
        receiver.release();
    };
    tokio::join!(sends, released);
    assert_eq!(receiver.accepted(), 40);
    receiver.wait_for_connections(32).await;
}

#[tokio::test]
async fn dropping_the_sender_closes_its_connections() {
    let receiver = Receiver::http();
    let sender = local(LONG);
    deliver(&sender, &receiver, 1).await;
    assert_eq!(receiver.connections(), 1);
    drop(sender);
    receiver.wait_for_connections(0).await;
}

#[tokio::test]
async fn canceling_an_attempt_closes_its_connection() {
    let receiver = Receiver::http();
    receiver.respond_to_all(Behavior::Silent);
    let sender = local(LONG);
    let url = receiver.url("/");
    tokio::select! {
        attempt = send(&sender, &url) => panic!("{attempt:?}"),
        _ = receiver.wait_for(1) => {}
    }
    receiver.wait_for_connections(0).await;
}
