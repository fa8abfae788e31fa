//! `enquiry.submitted`.

use super::{ids, submit_enquiry};
use serde_json::{Value, json};
use tests::{World, text};

#[tokio::test]
async fn opens_a_lead_at_stage_inquiry_with_a_trip_and_a_draft_proposal() {
    let world = World::shared().await;
    let result = submit_enquiry(&world, json!({})).await;
    assert!(ids(&result).iter().all(Value::is_string), "{result}");
    let lead = world.lead(&result["leadId"]).await;
    assert_eq!((&lead["stage"], &lead["followUp"]), (&json!("inquiry"), &json!(false)));
    assert_eq!((&lead["clientId"], &lead["tripId"]), (&result["clientId"], &result["tripId"]));
    let proposals =
        "SELECT p.status, t.lead_id::text FROM proposals p JOIN trips t USING (tenant_id, trip_id)";
    let proposals = world.database.rows(proposals, &[]).await;
    assert_eq!(proposals, [json!({"status": "draft", "lead_id": result["leadId"]})]);
    assert_eq!(world.timeline(&result["clientId"]).await.len(), 1);
}

#[tokio::test]
async fn enquiry_numbers_use_the_tenants_prefix() {
    let world = World::shared().await;
    world.database.execute("UPDATE tenants SET enquiry_prefix = 'ZTA'").await;
    let lead = world.lead(&submit_enquiry(&world, json!({})).await["leadId"]).await;
    assert!(text(&lead["enquiryNumber"]).starts_with("ZTA-"), "{lead}");
    assert!(text(&lead["enquiryNumber"]).ends_with("-000001"), "{lead}");
}
