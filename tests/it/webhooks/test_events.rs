//! Test events: `subscription test`.

use super::OutboundWorld;
use serde_json::json;
use tests::{Behavior, ReceivedRequest, World, text, until_equal};

#[tokio::test]
async fn a_test_event_reaches_its_subscription_alone_whatever_its_event_types() {
    let outbound = OutboundWorld::shared().await;
    let tested = outbound.subscribe("/tested", &["--events", "booking.cancelled"]).await;
    outbound.subscribe("/other", &[]).await;

    let delivery = outbound.world.connectctl.json(&["subscription", "test", &tested.id]).await;
    let expected = (&json!("delivered"), &json!("webhook.test"), &json!(tested.id));
    assert_eq!((&delivery["state"], &delivery["eventType"], &delivery["subscriptionId"]), expected);
    assert_eq!(delivery["attempts"].as_array().map(Vec::len), Some(1), "{delivery}");
    assert_eq!(delivery["attempts"][0]["status"], 204);
    outbound.open_lead().await;
    let received = outbound.take_received().await;
    let paths: Vec<&str> = received.iter().map(ReceivedRequest::path).collect();
    assert_eq!(paths, ["/tested", "/other"], "the lead is assigned to whom wants it");
    let webhook = &received[0];
    assert!(webhook.verify(&tested.secret).is_ok());
    assert_eq!(webhook.header("x-connect-event"), "webhook.test");
    assert_eq!(webhook.header("x-connect-delivery"), text(&delivery["id"]));
    let body = webhook.json();
    let expected = (&delivery["eventId"], &json!("webhook.test"), &json!(outbound.world.key.tenant));
    assert_eq!((&body["eventId"], &body["eventType"], &body["tenant"]), expected);
    assert_eq!(body["payload"], json!({"test": true, "subscriptionId": tested.id}));
    assert_eq!(received[1].header("x-connect-event"), "lead.assigned");
    assert_eq!(outbound.pending_events().await, 0);
}

#[tokio::test]
async fn a_failed_test_is_printed_gets_one_attempt_and_needs_nobodys_attention() {
    let outbound = OutboundWorld::shared().await;
    let tested = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.respond_to_next("/hooks", [Behavior::status(500).with_body("why")]);
    let ran = outbound.world.connectctl.run(&["subscription", "test", &tested.id, "--json"]).await;
    let delivery = ran.json();
    assert_eq!((ran.code, &delivery["attempts"][0]["status"]), (Some(1), &json!(500)), "{ran:?}");
    assert_eq!(delivery["state"], "dropped");
    assert!(ran.errors.contains("did not accept the test event"), "{ran:?}");
    outbound.open_lead_until("delivered", 1).await;
    assert_eq!(outbound.take_received().await.len(), 2);
    let database = &outbound.world.database;
    assert_eq!(database.count("SELECT count(*) FROM attempts WHERE response = 'why'").await, 1);
    assert_eq!(database.count("SELECT count(*) FROM deliveries WHERE needs_notice").await, 0);
    let counted =
        async |column| database.count(&format!("SELECT coalesce(sum({column}), 0)::bigint FROM failure_minutes")).await;
    until_equal("the lead's delivery is counted", 1, async || counted("succeeded").await).await;
    assert_eq!(counted("failed").await, 0, "the test is not");
}

#[tokio::test]
async fn a_paused_or_removed_subscription_is_not_tested() {
    let outbound = OutboundWorld::shared().await;
    let tested = outbound.subscribe("/hooks", &[]).await;
    let refusal = async || outbound.world.connectctl.refusal(&["subscription", "test", &tested.id]).await;
    outbound.change_subscription("pause", &tested).await;
    assert!(refusal().await.contains("is paused; resume it"));
    outbound.change_subscription("remove", &tested).await;
    assert!(refusal().await.contains("was removed"));
    assert_eq!(outbound.world.database.count("SELECT count(*) FROM outbox").await, 0);
}

#[tokio::test]
async fn without_a_dispatcher_the_command_ends_and_the_event_is_sent_later() {
    let mut outbound = OutboundWorld::without_dispatcher(World::with()).await;
    let tested = outbound.subscribe("/hooks", &[]).await;
    let test = ["subscription", "test", &tested.id, "--wait", "1s"];
    let refusal = outbound.world.connectctl.refusal(&test).await;
    assert!(refusal.contains("no dispatcher has attempted the test delivery"), "{refusal}");
    assert!(refusal.contains("within 1s; check that connect-dispatcher runs"), "{refusal}");
    outbound.world.add_dispatcher().await;
    outbound.until_deliveries("delivered", 1).await;
}
