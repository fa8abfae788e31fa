//! Writers that read, change and write back under the version they read: every change that succeeded is in the final
//! record (D19).

use super::{client_route, data, lead_route, new_lead, patch_request, record, records_target, trip_route};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{HttpClient, World, event, text};
use uuid::Uuid;

const WRITERS: usize = 6;
const WORDS: usize = 4;

/// A text of a record that writers add words to.
struct SharedText<'a> {
    route: &'a str,
    field: &'static str,
}

impl SharedText<'_> {
    /// The words in a record of the API.
    fn words(&self, shown: &Value) -> Vec<String> {
        match self.field {
            "travelers" => {
                let travelers = shown["travelers"].as_array().expect("a roster").iter();
                travelers.map(|traveler| text(&traveler["name"]).to_owned()).collect()
            }
            "budget" => split(&shown["budget"]["notes"]),
            field => split(&shown[field]),
        }
    }

    /// A patch that sets these words.
    fn change(&self, words: &[String]) -> Value {
        match self.field {
            "travelers" => {
                json!({"travelers": words.iter().map(|word| json!({"name": word})).collect::<Vec<_>>()})
            }
            "budget" => json!({"budget": {"notes": words.join(" ")}}),
            field => json!({field: words.join(" ")}),
        }
    }

    /// Adds a word; reads and retries until no other writer was faster.
    async fn add(&self, world: &World, http: &HttpClient, word: &str) {
        for _ in 0..500 {
            // The query has no meaning; it makes each signature unique.
            let target = format!("{}?{}", records_target(self.route), Uuid::now_v7());
            let read = http.send(&world.key.records("GET", &target, "")).await;
            let mut words = self.words(&record(&read, 200));
            words.push(word.to_owned());
            let request = patch_request(&world.key, self.route, &self.change(&words));
            let written = http.send(&request.with("if-match", read.header("etag"))).await;
            match written.status {
                200 => return assert_eq!(self.words(&record(&written, 200)), words),
                412 => {}
                _ => panic!("{written:?}"),
            }
        }
        panic!("{word} was never written");
    }
}

fn split(text: &Value) -> Vec<String> {
    text.as_str().unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Changes other fields of the same records change_other_fields.
async fn change_other_fields(world: &World, lead: &Value) {
    for i in 0..WRITERS * WORDS {
        let ana = event(["booking.abandoned", "contact.identified"][i % 2]).email("ana@example.com");
        world.accept(ana.phone(&format!("9{i}"))).await;
        let stage = ["inquiry", "follow_up"][i % 2];
        let (route, change) = [
            (lead_route(lead), json!({"followUp": i % 4 == 0})),
            (trip_route(lead), json!({"party": {"adults": i}})),
            (lead_route(lead), json!({"stage": stage})),
        ][i % 3]
            .clone();
        assert_eq!(world.http().send(&patch_request(&world.key, &route, &change)).await.status, 200);
    }
}

#[tokio::test]
async fn keeps_every_change_of_concurrent_read_modify_write_callers() {
    let world = World::shared().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "100000"]).await;
    let lead = new_lead(&world, json!({})).await;
    let routes = [client_route(&json!({"id": lead["clientId"]})), lead_route(&lead), trip_route(&lead)];
    let [client, enquiry, trip] = routes.each_ref();
    let texts = [
        SharedText { route: client, field: "name" },
        SharedText { route: client, field: "travelers" },
        SharedText { route: enquiry, field: "title" },
        SharedText { route: trip, field: "destination" },
        SharedText { route: trip, field: "budget" },
    ];
    let first: Vec<Vec<String>> = join_all(texts.iter().map(|text| shown_words(&world, text))).await;
    let writers = (0..WRITERS).flat_map(|writer| texts.iter().map(move |text| (writer, text)));
    let writing = writers.map(async |(writer, text)| {
        let http = world.all_http()[writer % 2];
        for word in 0..WORDS {
            text.add(&world, http, &format!("{writer}.{word}")).await;
        }
    });
    futures_util::join!(join_all(writing), change_other_fields(&world, &lead));
    let mut added: Vec<String> =
        (0..WRITERS).flat_map(|writer| (0..WORDS).map(move |word| format!("{writer}.{word}"))).collect();
    added.sort();
    for (text, first) in texts.iter().zip(first) {
        let words = shown_words(&world, text).await;
        let (before, mut after) = (words[..first.len()].to_vec(), words[first.len()..].to_vec());
        after.sort();
        assert_eq!((before, &after), (first, &added), "{} of {}", text.field, text.route);
    }
}

async fn shown_words(world: &World, text: &SharedText<'_>) -> Vec<String> {
    text.words(&data(&super::get(world, text.route).await, 200))
}
