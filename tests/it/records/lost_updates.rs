//! Changes of an enquiry and its trip at once: none is lost (D19).

use super::{at_once, data, doubled, get, lead_route, new_lead, patch_of, record, trip_route};
use serde_json::{Value, json};
use std::collections::HashSet;
use tests::text;

#[tokio::test]
async fn of_patches_of_an_enquiry_or_its_trip_at_once_with_one_etag_exactly_one_succeeds() {
    let world = doubled().await;
    let lead = new_lead(&world, json!({})).await;
    let routes = [(trip_route(&lead), "destination"), (lead_route(&lead), "title")];
    for (route, field) in routes.iter().cycle().take(6) {
        let etag = get(&world, route).await.header("etag").to_owned();
        let requests: Vec<_> = (0..10)
            .map(|i| {
                let body = json!({*field: format!("{i} of {etag}")});
                patch_of(&world.key, route, &body).with("if-match", &etag)
            })
            .collect();
        let answers = at_once(&world, &requests).await;
        let (done, stale): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!((done.len(), stale.len()), (1, 9), "{route}: {answers:?}");
        let kept = record(done[0], 200);
        for answer in stale {
            assert_eq!(super::refused_with(answer, 412, "stale_write", "updatedAt"), kept["updatedAt"]);
        }
        assert_eq!(data(&get(&world, route).await, 200), kept, "{route}");
    }
}

#[tokio::test]
async fn the_versions_of_an_enquiry_and_its_trip_strictly_grow_with_every_change_at_once() {
    let world = doubled().await;
    let lead = new_lead(&world, json!({})).await;
    for (route, field) in [(lead_route(&lead), "title"), (trip_route(&lead), "destination")] {
        let requests: Vec<_> =
            (0..20).map(|i| patch_of(&world.key, &route, &json!({field: format!("Name {i}")}))).collect();
        let answers = at_once(&world, &requests).await;
        let versions: HashSet<String> =
            answers.iter().map(|answer| text(&record(answer, 200)["updatedAt"]).to_owned()).collect();
        assert_eq!(versions.len(), 20, "every change has a version of its own: {answers:?}");
        let last = record(&get(&world, &route).await, 200);
        assert_eq!(versions.iter().max().map(String::as_str), Some(text(&last["updatedAt"])));
    }
}

#[tokio::test]
async fn changes_at_once_to_different_fields_of_a_trip_are_all_kept_and_told() {
    let world = doubled().await;
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
            patch_of(&world.key, &route, &json!({*field: value}))
        };
        let requests: Vec<_> = fields.iter().map(change).collect();
        for answer in at_once(&world, &requests).await {
            record(&answer, 200);
        }
        let after = record(&get(&world, &route).await, 200);
        for (field, value) in fields {
            assert_eq!(after[field], value, "{field}");
        }
        assert_eq!(world.inbox(&lead["id"]).await.len(), 5);
    }
}
