//! The webhook that a receiver gets (specification: Outbound webhook events).

use super::OutboundWorld;
use serde_json::json;
use tests::{event, text};

#[tokio::test]
async fn a_lead_assignment_reaches_a_subscriber_signed_and_in_the_envelope() {
    let outbound = OutboundWorld::shared().await;
    let subscription = outbound.subscribe("/hooks?site=1", &[]).await;
    let result = outbound
        .world
        .accept(
            event("enquiry.submitted")
                .email("ana@example.com")
                .name("Ana")
                .payload(json!({"externalLeadId": "w-1"})),
        )
        .await;
    let received = outbound.receiver.wait_for(1).await;
    let webhook = &received[0];
    assert_eq!((webhook.method(), webhook.target()), ("POST", "/hooks?site=1"));
    assert_eq!(webhook.verify(&subscription.secret), Ok(()));
    assert_eq!(webhook.header("content-type"), "application/json");
    assert_eq!(webhook.header("x-connect-tenant"), outbound.world.key.tenant);
    assert_eq!(webhook.header("x-connect-event"), "lead.assigned");
    let envelope = webhook.json();
    assert_eq!(envelope["specVersion"], "1.0");
    assert_eq!(envelope["eventType"], "lead.assigned");
    assert_eq!(
        (&envelope["tenant"], &envelope["origin"]),
        (&json!(outbound.world.key.tenant), &json!("crm"))
    );
    assert_eq!(envelope["actor"], json!({"type": "contact", "email": "ana@example.com", "name": "Ana"}));
    let payload = &envelope["payload"];
    assert_eq!((&payload["leadId"], &payload["tripId"]), (&result["leadId"], &result["tripId"]));
    assert_eq!((&payload["clientId"], &payload["externalId"]), (&result["clientId"], &json!("w-1")));
    assert!(text(&payload["owner"]["email"]).ends_with("@acme.test") && payload["previousOwner"].is_null());

    outbound.until_deliveries("delivered", 1).await;
    let rows = outbound
        .world
        .database
        .rows("SELECT delivery_id::text AS id, event_id::text AS event FROM deliveries", &[])
        .await;
    assert_eq!(webhook.header("x-connect-delivery"), rows[0]["id"]);
    assert_eq!(envelope["eventId"], rows[0]["event"]);
}
