//! Secrets that are rotated while deliveries are pending (specification: Outbound webhook signature).

use super::{OutboundWorld, Subscription};
use common::signature::{SignatureError, verify_webhook};
use tests::{Behavior, ReceivedRequest, now, text};

/// Rotates a subscription's secret and returns the new one.
async fn rotate(outbound: &OutboundWorld, subscription: &Subscription, options: &[&str]) -> String {
    let rotate = ["subscription", "rotate-secret", &subscription.id];
    let rotated = outbound.world.connectctl.json(&[&rotate, options].concat()).await;
    text(&rotated["secret"]).to_owned()
}

/// The header as it would be with each of its `v1` elements alone, in their order.
fn alone(webhook: &ReceivedRequest) -> Vec<String> {
    let mut elements = webhook.header("x-connect-signature").split(',');
    let t = elements.next().unwrap_or_default();
    elements.map(|element| format!("{t},{element}")).collect()
}

/// Checks that a webhook is signed with these secrets, in this order, and with nothing else.
#[track_caller]
fn assert_signed(webhook: &ReceivedRequest, secrets: &[&str]) {
    let headers = alone(webhook);
    assert_eq!(headers.len(), secrets.len(), "{headers:?}");
    for (at, header) in headers.iter().enumerate() {
        for (other, secret) in secrets.iter().enumerate() {
            let verified = verify_webhook(secret.as_bytes(), header, &webhook.body, now());
            let expected = if at == other { Ok(()) } else { Err(SignatureError::Mismatch) };
            assert_eq!(verified, expected, "signature {at} with secret {other}");
        }
    }
    assert!(secrets.iter().all(|secret| webhook.verify(secret).is_ok()), "a receiver takes either");
}

/// Causes one more delivery and returns its request.
async fn next(outbound: &OutboundWorld) -> ReceivedRequest {
    outbound.open_lead().await;
    outbound.take_received().await.pop().expect("a webhook")
}

#[tokio::test]
async fn a_new_secret_signs_from_the_next_attempt() {
    let outbound = OutboundWorld::shared().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.hold();
    outbound.receiver.respond_to_next("/hooks", [Behavior::status(500).held()]);
    outbound.open_lead().await;
    outbound.receiver.wait_for(1).await;
    let secret = rotate(&outbound, &subscription, &[]).await;
    outbound.receiver.release();
    let [first, second] = &outbound.take_received().await[..] else { panic!("two attempts") };
    assert_signed(first, &[&subscription.secret]);
    assert_signed(second, &[&secret]);
    assert_eq!(first.body, second.body);
    assert_eq!(second.verify(&subscription.secret), Err(SignatureError::Mismatch));
}

#[tokio::test]
async fn both_secrets_sign_during_an_overlap_and_only_the_new_one_afterwards() {
    let outbound = OutboundWorld::shared().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    let second = rotate(&outbound, &subscription, &["--overlap", "1h"]).await;
    assert_signed(&next(&outbound).await, &[&second, &subscription.secret]);

    let third = rotate(&outbound, &subscription, &["--overlap", "1h", "--replace-overlap"]).await;
    let webhook = next(&outbound).await;
    assert_signed(&webhook, &[&third, &second]);
    let expected = Err(SignatureError::Mismatch);
    assert_eq!(webhook.verify(&subscription.secret), expected, "the first secret is no longer valid");

    outbound.world.database.execute("UPDATE subscriptions SET old_secret_until = now()").await;
    assert_signed(&next(&outbound).await, &[&third]);
}
