//! Writers that read, change and write back under the version they read: every change that was answered with success is
//! in the final record (D19).

use super::{at, client_route, data, doubled, lead_route, new_lead, patch_of, record, trip_route};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{Http, World, event, text};
use uuid::Uuid;

const WRITERS: usize = 6;
const WORDS: usize = 4;

/// A text of a record that writers add words to.
struct Text<'a> {
    route: &'a str,
    /// What is changed.
    field: &'static str,
}

impl Text<'_> {
    /// The words of a record as it is shown.
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

    /// The change that makes them these.
    fn change(&self, words: &[String]) -> Value {
        match self.field {
            "travelers" => {
                json!({"travelers": words.iter().map(|word| json!({"name": word})).collect::<Vec<_>>()})
            }
            "budget" => json!({"budget": {"notes": words.join(" ")}}),
            field => json!({field: words.join(" ")}),
        }
    }

    /// Adds a word, reading and trying again until nobody was faster.
    async fn add(&self, world: &World, http: &Http, word: &str) {
        for _ in 0..500 {
            // The query says nothing; it makes each request one of its own.
            let target = format!("{}?{}", at(self.route), Uuid::now_v7());
            let read = http.send(&world.key.records("GET", &target, "")).await;
            let mut words = self.words(&record(&read, 200));
            words.push(word.to_owned());
            let request = patch_of(&world.key, self.route, &self.change(&words));
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

/// What goes on beside the writers: it changes other fields of the same records.
async fn meanwhile(world: &World, lead: &Value) {
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
        assert_eq!(world.http().send(&patch_of(&world.key, &route, &change)).await.status, 200);
    }
}

#[tokio::test]
async fn every_change_of_writers_that_read_before_they_write_is_kept() {
    let world = doubled().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "100000"]).await;
    let lead = new_lead(&world, json!({})).await;
    let routes = [client_route(&json!({"id": lead["clientId"]})), lead_route(&lead), trip_route(&lead)];
    let [client, enquiry, trip] = routes.each_ref();
    let texts = [
        Text { route: client, field: "name" },
        Text { route: client, field: "travelers" },
        Text { route: enquiry, field: "title" },
        Text { route: trip, field: "destination" },
        Text { route: trip, field: "budget" },
    ];
    let first: Vec<Vec<String>> = join_all(texts.iter().map(|text| shown_words(&world, text))).await;
    let writers = (0..WRITERS).flat_map(|writer| texts.iter().map(move |text| (writer, text)));
    let writing = writers.map(async |(writer, text)| {
        let http = world.ingests[writer % 2].http();
        for word in 0..WORDS {
            text.add(&world, http, &format!("{writer}.{word}")).await;
        }
    });
    futures_util::join!(join_all(writing), meanwhile(&world, &lead));
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

async fn shown_words(world: &World, text: &Text<'_>) -> Vec<String> {
    text.words(&data(&super::get(world, text.route).await, 200))
}
