//! Changes of a lead and its trip at once: none is lost (D19).

use super::{data, get, lead_route, new_lead, patch_request, record, send_at_once, trip_route};
use serde_json::{Value, json};
use std::collections::HashSet;
use tests::{World, text};

#[tokio::test]
async fn exactly_one_of_concurrent_lead_or_trip_patches_with_one_etag_succeeds() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    let routes = [(trip_route(&lead), "destination"), (lead_route(&lead), "title")];
    for (route, field) in routes.iter().cycle().take(6) {
        let etag = get(&world, route).await.header("etag").to_owned();
        let requests: Vec<_> = (0..10)
            .map(|i| {
                let body = json!({*field: format!("{i} of {etag}")});
                patch_request(&world.key, route, &body).with("if-match", &etag)
            })
            .collect();
        let responses = send_at_once(&world, &requests).await;
        let (done, stale): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 200);
        assert_eq!((done.len(), stale.len()), (1, 9), "{route}: {responses:?}");
        let kept = record(done[0], 200);
        for response in stale {
            assert_eq!(super::refused_with(response, 412, "stale_write", "updatedAt"), kept["updatedAt"]);
        }
        assert_eq!(data(&get(&world, route).await, 200), kept, "{route}");
    }
}

#[tokio::test]
async fn every_concurrent_change_of_a_lead_or_trip_gets_a_newer_version() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    for (route, field) in [(lead_route(&lead), "title"), (trip_route(&lead), "destination")] {
        let requests: Vec<_> = (0..20)
            .map(|i| patch_request(&world.key, &route, &json!({field: format!("Name {i}")})))
            .collect();
        let responses = send_at_once(&world, &requests).await;
        let versions: HashSet<String> =
            responses.iter().map(|response| text(&record(response, 200)["updatedAt"]).to_owned()).collect();
        assert_eq!(versions.len(), 20, "every change has a version of its own: {responses:?}");
        let last = record(&get(&world, &route).await, 200);
        assert_eq!(versions.iter().max().map(String::as_str), Some(text(&last["updatedAt"])));
    }
}

#[tokio::test]
async fn keeps_and_posts_all_concurrent_changes_to_different_trip_fields() {
    let world = World::shared().await;
    for _ in 0..3 {
        let lead = new_lead(&world, json!({})).await;
        let route = trip_route(&lead);
        let fields = [
            ("title", json!("South")),
            ("destination", json!("Goa")),
            ("travelDates", json!({"startDate": "2027-05-01", "endDate": "2027-05-02"})),
            ("guestNationality", json!("IN")),
            ("budget", json!({"amount": null, "currency": null, "notes": "modest"})),
        ];
        let change = |(field, value): &(&str, Value)| {
            let value = if *field == "budget" { json!({"notes": "modest"}) } else { value.clone() };
            patch_request(&world.key, &route, &json!({*field: value}))
        };
        let requests: Vec<_> = fields.iter().map(change).collect();
        for response in send_at_once(&world, &requests).await {
            record(&response, 200);
        }
        let after = record(&get(&world, &route).await, 200);
        for (field, value) in fields {
            assert_eq!(after[field], value, "{field}");
        }
        assert_eq!(world.inbox(&lead["id"]).await.len(), 5);
    }
}
