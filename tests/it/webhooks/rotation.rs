//! Secrets that are rotated while deliveries are on their way (specification: Outbound webhook signature).

use super::{Outbound, Subscription};
use common::signature::{Refused, verify_webhook};
use tests::{Behaviour, Received, now, text};

/// Rotates a subscription's secret and gives the new one.
async fn rotate(outbound: &Outbound, subscription: &Subscription, options: &[&str]) -> String {
    let rotate = ["subscription", "rotate-secret", &subscription.id];
    let rotated = outbound.world.connectctl.json(&[&rotate, options].concat()).await;
    text(&rotated["secret"]).to_owned()
}

/// The header as it would be with each of its `v1` elements alone, in their order.
fn alone(webhook: &Received) -> Vec<String> {
    let mut elements = webhook.header("x-connect-signature").split(',');
    let t = elements.next().unwrap_or_default();
    elements.map(|element| format!("{t},{element}")).collect()
}

/// Checks that a webhook is signed with these secrets, in this order, and with nothing else.
#[track_caller]
fn assert_signed(webhook: &Received, secrets: &[&str]) {
    let headers = alone(webhook);
    assert_eq!(headers.len(), secrets.len(), "{headers:?}");
    for (at, header) in headers.iter().enumerate() {
        for (other, secret) in secrets.iter().enumerate() {
            let verified = verify_webhook(secret.as_bytes(), header, &webhook.body, now());
            let expected = if at == other { Ok(()) } else { Err(Refused::Mismatch) };
            assert_eq!(verified, expected, "signature {at} with secret {other}");
        }
    }
    assert!(secrets.iter().all(|secret| webhook.verify(secret).is_ok()), "a receiver takes either");
}

/// The newest request, once one more delivery has ended well.
async fn next(outbound: &Outbound) -> Received {
    outbound.tell().await;
    outbound.came().await.pop().expect("a webhook")
}

#[tokio::test]
async fn a_new_secret_signs_alone_from_the_next_attempt_on() {
    let outbound = Outbound::start().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.hold();
    outbound.receiver.answer_next("/hooks", [Behaviour::status(500).held()]);
    outbound.tell().await;
    outbound.receiver.wait_for(1).await;
    let secret = rotate(&outbound, &subscription, &[]).await;
    outbound.receiver.release();
    let [first, second] = &outbound.came().await[..] else { panic!("two attempts") };
    assert_signed(first, &[&subscription.secret]);
    assert_signed(second, &[&secret]);
    assert_eq!(first.body, second.body);
    assert_eq!(second.verify(&subscription.secret), Err(Refused::Mismatch));
}

#[tokio::test]
async fn in_an_overlap_both_secrets_sign_the_new_one_first_and_then_the_new_one_alone() {
    let outbound = Outbound::start().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    let second = rotate(&outbound, &subscription, &["--overlap", "1h"]).await;
    assert_signed(&next(&outbound).await, &[&second, &subscription.secret]);

    let third = rotate(&outbound, &subscription, &["--overlap", "1h"]).await;
    let webhook = next(&outbound).await;
    assert_signed(&webhook, &[&third, &second]);
    assert_eq!(
        webhook.verify(&subscription.secret),
        Err(Refused::Mismatch),
        "the first is of no use any more"
    );

    outbound.world.database.execute("UPDATE subscriptions SET old_secret_until = now()").await;
    assert_signed(&next(&outbound).await, &[&third]);
}
