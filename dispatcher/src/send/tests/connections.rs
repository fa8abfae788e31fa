//! Connections are used again while they are good, and closed when not.

use super::*;

async fn deliver(sender: &Sender, receiver: &Receiver, times: usize) {
    for _ in 0..times {
        let attempt = send(sender, &receiver.url("/")).await;
        assert_eq!(attempt.outcome, Outcome::Delivered, "{attempt:?}");
    }
}

#[tokio::test]
async fn a_connection_serves_many_webhooks_also_after_small_bodies_and_failures() {
    let authority = Authority::new();
    let sender = trusting(&authority, LONG);
    for receiver in [Receiver::http(), Receiver::https(&authority)] {
        receiver.answer_next(
            "/",
            [
                Behaviour::status(200),
                Behaviour::status(200).with_body("x".repeat(2_000)),
                Behaviour::status(204),
            ],
        );
        receiver.answer("/failing", Behaviour::status(500).with_body("sorry"));
        deliver(&sender, &receiver, 3).await;
        send(&sender, &receiver.url("/failing")).await;
        deliver(&sender, &receiver, 1).await;
        assert_eq!((receiver.count(), receiver.accepted()), (5, 1));
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_costs_no_attempt() {
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
    receiver.answer_all(Behaviour::status(204).held());
    receiver.hold();
    let sender = local(LONG);
    let sends = futures_util::future::join_all((0..40).map(|_| deliver(&sender, &receiver, 1)));
    let released = async {
        receiver.wait_for(40).await;
        receiver.release();
    };
    tokio::join!(sends, released);
    assert_eq!(receiver.accepted(), 40);
    receiver.wait_for_connections(16).await;
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
async fn an_attempt_that_is_given_up_closes_its_connection() {
    let receiver = Receiver::http();
    receiver.answer_all(Behaviour::Silent);
    let sender = local(LONG);
    let url = receiver.url("/");
    tokio::select! {
        attempt = send(&sender, &url) => panic!("{attempt:?}"),
        _ = receiver.wait_for(1) => {}
    }
    receiver.wait_for_connections(0).await;
}
