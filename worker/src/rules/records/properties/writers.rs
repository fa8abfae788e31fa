//! Concurrent writers: they read a client, a lead and its trip, and change them under the version that they have read,
//! while events and writers without conditions change other fields.

use super::{any_jump, apply, check_version, event, shown, tick};
use crate::rules::records::testing::{client_id, if_match, lead_id};
use crate::rules::records::{Record, Write};
use crate::rules::simulation::{Loading, Simulation};
use common::model::{ClientId, LeadId};
use common::record::parse;
use common::write::WriteRefusal;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const WRITERS: usize = 3;

/// Indexes of the three records.
const CLIENT: usize = 0;
const LEAD: usize = 1;
const TRIP: usize = 2;

/// Texts to which words are added, with the record that has them.
const TEXTS: [(usize, &str); 7] = [
    (CLIENT, "name"),
    (CLIENT, "travelers"),
    (LEAD, "title"),
    (TRIP, "title"),
    (TRIP, "destination"),
    (TRIP, "budget"),
    (TRIP, "message"),
];

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A writer reads a record.
    Look { writer: usize, record: usize },
    /// A writer adds a word to one of [`TEXTS`] as they last read it, under the version that they read.
    Add { writer: usize, text: usize },
    /// A writer without a condition changes another field.
    Set { record: usize, body: Value },
    /// An event changes the client.
    Event(&'static str),
    /// The clock is moved.
    Clock(i64),
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    let others = vec![
        (CLIENT, json!({"company": "A"})),
        (CLIENT, json!({"company": "B", "marketingOptIn": true})),
        (LEAD, json!({"followUp": true})),
        (LEAD, json!({"followUp": false, "owner": "b@agency.com"})),
        (LEAD, json!({"owner": "a@agency.com"})),
        (LEAD, json!({"stage": "negotiation"})),
        (LEAD, json!({"stage": "inquiry"})),
        (LEAD, json!({"stage": "lost", "reason": "too dear"})),
        (TRIP, json!({"guestNationality": "IN"})),
        (TRIP, json!({"party": {"adults": 2}})),
        (TRIP, json!({"party": {"adults": 3}, "travelDates": {"startDate": "2027-05-01"}})),
        (TRIP, json!({"itinerary": {"title": "x", "days": []}})),
    ];
    let events =
        vec!["contact.identified", "booking.started", "booking.abandoned", "booking.completed", "enquiry.submitted"];
    prop_oneof![
        4 => (0..WRITERS, 0..3_usize).prop_map(|(writer, record)| Step::Look { writer, record }),
        8 => (0..WRITERS, 0..TEXTS.len()).prop_map(|(writer, text)| Step::Add { writer, text }),
        2 => select(others).prop_map(|(record, body)| Step::Set { record, body }),
        1 => select(events).prop_map(Step::Event),
        2 => any_jump().prop_map(Step::Clock),
    ]
}

/// The records, and what each writer has last read.
pub(super) struct ConcurrentWriters {
    simulation: Simulation,
    client: ClientId,
    lead: LeadId,
    seen: Vec<[Value; 3]>,
    /// Words that were added, with their index in [`TEXTS`].
    kept: Vec<(usize, String)>,
    /// Records and versions under which a change succeeded.
    used: BTreeSet<(usize, String)>,
}

impl ConcurrentWriters {
    pub(super) fn new() -> Self {
        let mut simulation = Simulation::new();
        tick(&mut simulation, 0);
        let body = br#"{"contact": {"email": "ana@example.com"}, "destination": "Goa", "budget": {"notes": "x"}}"#;
        let lead = Write::NewLead(Box::new(parse(body).unwrap()));
        let lead = apply(&mut simulation, &lead, None, Loading::Needed).unwrap();
        let (client, lead) = (client_id(&lead["clientId"]), lead_id(&lead["id"]));
        let (kept, used) = (Vec::new(), BTreeSet::new());
        let mut writers = Self { simulation, client, lead, seen: Vec::new(), kept, used };
        writers.seen = vec![writers.shown(); WRITERS];
        writers
    }

    /// Client, lead and trip.
    fn shown(&self) -> [Value; 3] {
        let state = self.simulation.all();
        [Record::Client(self.client), Record::Lead(self.lead), Record::Trip(self.lead, None)]
            .map(|record| shown(&state, record))
    }

    /// Executes the `number`-th step and checks the versions.
    pub(super) fn step(&mut self, number: usize, step: &Step) {
        let before = self.shown();
        match step {
            Step::Look { writer, record } => self.seen[*writer][*record] = before[*record].clone(),
            Step::Add { writer, text } => self.add(*writer, *text, &format!("w{number}"), &before),
            Step::Set { record, body } => drop(self.patch(*record, body, None)),
            Step::Event(kind) => drop(self.simulation.unit(&[event(number, kind)], Loading::Needed)),
            Step::Clock(milliseconds) => tick(&mut self.simulation, *milliseconds),
        }
        let after = self.shown();
        before.iter().zip(&after).for_each(|(before, after)| check_version(before, after));
    }

    fn add(&mut self, writer: usize, text: usize, word: &str, before: &[Value; 3]) {
        let (record, field) = TEXTS[text];
        let seen = self.seen[writer][record].clone();
        let version = |record: &Value| record["updatedAt"].as_str().unwrap().to_owned();
        match self.patch(record, &with_word(&seen, field, word), Some(&seen)) {
            Ok(written) => {
                assert_eq!(version(&seen), version(&before[record]), "it had not seen the current version");
                assert!(self.used.insert((record, version(&seen))), "two passed under one version");
                assert_eq!(written, self.shown()[record], "the response is the record");
                self.kept.push((text, word.to_owned()));
                self.seen[writer][record] = written;
            }
            Err(WriteRefusal::StaleWrite { updated_at }) => {
                assert_ne!(version(&seen), version(&before[record]), "it had seen the current version");
                assert_eq!(updated_at, version(&before[record]));
            }
            Err(WriteRefusal::TripClosed { stage }) => {
                assert!(record == TRIP && before[LEAD]["stage"] == json!(stage));
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn patch(&mut self, record: usize, body: &Value, seen: Option<&Value>) -> Result<Value, WriteRefusal> {
        let body = body.to_string().into_bytes();
        let write = match record {
            CLIENT => Write::Client(self.client, parse(&body).unwrap()),
            LEAD => Write::Lead(self.lead, parse(&body).unwrap()),
            _ => Write::Trip(self.lead, Box::new(parse(&body).unwrap())),
        };
        apply(&mut self.simulation, &write, seen.map(if_match).as_ref(), Loading::Needed)
    }

    /// Checks that each added word is present exactly once.
    pub(super) fn check_kept(&self) {
        let records = self.shown();
        for (text, word) in &self.kept {
            let (record, field) = TEXTS[*text];
            let found = self.words(&records[record], field).iter().filter(|there| *there == word).count();
            assert_eq!(found, 1, "{word} of {field} in {}", records[record]);
        }
    }

    fn words(&self, record: &Value, field: &str) -> Vec<String> {
        let split =
            |text: &Value| -> Vec<String> { text.as_str().unwrap_or_default().split(' ').map(str::to_owned).collect() };
        match field {
            "travelers" => names(record),
            "budget" => split(&record["budget"]["notes"]),
            "message" => self.simulation.rows.inbox.iter().filter_map(|message| message.text.clone()).collect(),
            _ => split(&record[field]),
        }
    }
}

/// A PATCH body that adds `word` to a text of a record as it was read.
fn with_word(seen: &Value, field: &str, word: &str) -> Value {
    let longer = |text: &Value| json!(format!("{} {word}", text.as_str().unwrap_or_default()).trim());
    match field {
        "travelers" => {
            let travelers: Vec<_> =
                names(seen).iter().chain([&word.to_owned()]).map(|name| json!({"name": name})).collect();
            json!({"travelers": travelers})
        }
        "budget" => json!({"budget": {"notes": longer(&seen["budget"]["notes"])}}),
        "message" => json!({"message": word}),
        _ => json!({field: longer(&seen[field])}),
    }
}

fn names(client: &Value) -> Vec<String> {
    let travelers = client["travelers"].as_array().into_iter().flatten();
    travelers.map(|traveler| traveler["name"].as_str().unwrap().to_owned()).collect()
}
