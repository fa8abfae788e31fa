//! `enquiry.submitted`.

use super::{ids, submit_enquiry, warnings};
use serde_json::{Value, json};
use tests::{World, event, text};

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
async fn enquiry_numbers_have_prefix_year_and_six_digits_and_never_repeat() {
    let world = World::shared().await;
    let year = common::clock::now().format("%Y").to_string();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let lead = submit_enquiry(&world, json!({})).await["leadId"].clone();
        let number = text(&world.lead(&lead).await["enquiryNumber"]).to_owned();
        let parts: Vec<&str> = number.split('-').collect();
        let [prefix, of_year, sequence] = parts[..] else { panic!("{number}") };
        assert_eq!((prefix, of_year, sequence.len()), ("ENQ", year.as_str(), 6), "{number}");
        assert!(sequence.bytes().all(|digit| digit.is_ascii_digit()), "{number}");
        assert!(!seen.contains(&number), "{number} twice");
        seen.push(number);
    }
    assert!(seen.is_sorted(), "{seen:?}");
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
async fn each_submission_opens_another_lead_of_the_same_client() {
    let world = World::shared().await;
    let first = submit_enquiry(&world, json!({"externalLeadId": "x-1"})).await;
    let second = submit_enquiry(&world, json!({"externalLeadId": "x-1"})).await;
    assert_eq!(first["clientId"], second["clientId"]);
    assert_ne!(first["leadId"], second["leadId"]);
    assert_ne!(first["tripId"], second["tripId"]);
    for result in [&first, &second] {
        assert_eq!(world.lead(&result["leadId"]).await["externalId"], "x-1");
        assert!(warnings(result).is_empty(), "{result}");
    }
}

#[tokio::test]
async fn uses_the_title_sent_or_generates_one() {
    let world = World::shared().await;
    let titled = submit_enquiry(&world, json!({"title": "Honeymoon"})).await;
    assert_eq!(world.lead(&titled["leadId"]).await["title"], "Honeymoon");
    let untitled = submit_enquiry(&world, json!({})).await;
    assert_ne!(text(&world.lead(&untitled["leadId"]).await["title"]), "");
}

#[tokio::test]
async fn stores_the_customers_message_in_the_inbox() {
    let world = World::shared().await;
    let result = submit_enquiry(&world, json!({"message": "We'd love\nthe sea."})).await;
    let [message] = &world.inbox(&result["leadId"]).await[..] else { panic!("one message") };
    assert_eq!((&message["kind"], &message["text"]), (&json!("message"), &json!("We'd love\nthe sea.")));
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
async fn an_invalid_itinerary_gets_a_warning_and_the_lead_still_opens() {
    let world = World::shared().await;
    for snapshot in [
        json!("Goa"),
        json!({"days": []}),
        json!({"title": "Goa"}),
        json!({"title": "Goa", "days": [{"items": []}]}),
        json!({"title": "Goa", "days": [{"title": "1", "items": [{"price": 1}]}]}),
        json!({"title": "Goa", "days": [], "notes": "x".repeat(256 * 1024)}),
    ] {
        let result = submit_enquiry(&world, json!({"itinerarySnapshot": snapshot})).await;
        assert_eq!(warnings(&result), ["itinerary_rejected"]);
        assert_eq!(world.lead(&result["leadId"]).await["stage"], "inquiry");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM itineraries").await, 0);
}

#[tokio::test]
async fn opens_a_lead_for_a_contact_with_only_a_phone() {
    let world = World::shared().await;
    let result = world.accept(event("enquiry.submitted").phone("+1 555")).await;
    assert!(ids(&result).iter().all(Value::is_string), "{result}");
}
