//! `enquiry.submitted`.

use super::{ids, submit_enquiry, warnings};
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

#[tokio::test]
async fn stores_the_customers_message_in_the_inbox() {
    let world = World::shared().await;
    let result = submit_enquiry(&world, json!({"message": " We'd love\nthe sea. "})).await;
    let [message] = &world.inbox(&result["leadId"]).await[..] else { panic!("one message") };
    assert_eq!((&message["kind"], &message["text"]), (&json!("message"), &json!(" We'd love\nthe sea. ")));
    let silent = submit_enquiry(&world, json!({})).await;
    assert!(world.inbox(&silent["leadId"]).await.is_empty());
}

#[tokio::test]
async fn stores_the_attribution_and_filters_the_pipeline_by_campaign() {
    let world = World::shared().await;
    let block = json!({"source": "google", "medium": "cpc", "campaign": "Spring 26", "term": "goa", "content": "a",
        "landingPath": "/goa?x=1", "referrer": "https://www.example.com/"});
    let spring = submit_enquiry(&world, json!({"attribution": block})).await;
    let autumn = submit_enquiry(&world, json!({"attribution": {"campaign": "Autumn"}})).await;
    submit_enquiry(&world, json!({})).await;
    assert_eq!(world.lead(&spring["leadId"]).await["attribution"], block);
    for (campaign, lead) in [("Spring 26", &spring["leadId"]), ("Autumn", &autumn["leadId"])] {
        let found = world.pipeline(&["--campaign", campaign]).await;
        assert_eq!(found.iter().map(|row| &row["id"]).collect::<Vec<_>>(), [lead], "{campaign}");
    }
    assert!(world.pipeline(&["--campaign", "Winter"]).await.is_empty());
    assert_eq!(world.pipeline(&[]).await.len(), 3);
}

#[tokio::test]
async fn stores_a_valid_itinerary_on_the_draft_proposal_unchanged() {
    let world = World::shared().await;
    let snapshot = json!({"title": "Goa", "days": [{"title": "Day 1", "items": [{"title": "Taxi", "price": 12.5, "é": [1]}]}, {"title": "Day 2", "items": []}]});
    let result = submit_enquiry(&world, json!({"itinerarySnapshot": snapshot})).await;
    assert!(warnings(&result).is_empty(), "{result}");
    let stored = world.database.rows("SELECT snapshot FROM itineraries", &[]).await;
    assert_eq!(stored, [json!({"snapshot": snapshot})]);
}

#[tokio::test]
async fn a_brief_is_shown_as_sent_without_the_fields_that_cannot_be_read() {
    let world = World::shared().await;
    let party = json!({"adults": 2, "children": 1, "childAges": [7], "rooms": 1});
    let brief = json!({"destination": "Goa, then Kerala", "party": party, "guestNationality": "XX",
        "budget": {"amount": 90000.5, "currency": "INR"}, "travelDates": {"start": "2027-05-01", "end": "2027-05-09"}});
    let result = submit_enquiry(&world, brief).await;
    assert_eq!(warnings(&result), ["brief_field_rejected:guestNationality"]);
    let lead = world.lead(&result["leadId"]).await;
    assert_eq!((&lead["destination"], &lead["party"]), (&json!("Goa, then Kerala"), &party));
    assert_eq!(lead["travelDates"], json!({"startDate": "2027-05-01", "endDate": "2027-05-09"}));
    assert_eq!(lead["budget"], json!({"amount": 90000.5, "currency": "INR", "notes": null}));
}
