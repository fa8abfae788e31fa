//! Arbitrary writes to a few clients and leads, so that their identities collide.

use super::shown;
use crate::rules::records::testing::{client_id, lead_id};
use crate::rules::records::{Record, Write};
use crate::rules::simulation::Simulation;
use common::model::{ClientId, LeadId};
use common::record::{RecordBody, parse};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A write whose record is chosen when it is sent.
#[derive(Clone, Debug)]
pub(super) enum AnyWrite {
    NewClient(Value),
    Client(Index, Value),
    /// With a contact, or for an existing client.
    NewLead(Option<Index>, Value),
    Lead(Index, Value),
    Trip(Index, Value),
}

/// A JSON object of the fields that have a value.
fn object<const N: usize>(names: [&str; N], values: [Option<Value>; N]) -> Value {
    let there = names.into_iter().zip(values).filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(there.collect::<Map<_, _>>())
}

fn maybe(values: Vec<Value>) -> impl Strategy<Value = Option<Value>> {
    option::of(select(values))
}

fn texts(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| json!(text)).collect()
}

fn person() -> impl Strategy<Value = Value> {
    let emails = texts(&["ana@example.com", "ANA@Example.com", "bob@initech.com", "eve@gmail.com", "Eve@Initech.com"]);
    let rosters = vec![json!([]), json!([{"name": "Bo"}]), json!([{"name": "Bo", "type": "child"}, {"name": "Cy"}])];
    let fields = (
        maybe(emails),
        maybe(texts(&["x-1", "x-2"])),
        maybe(texts(&["+1 2", "12", "34"])),
        maybe(texts(&["Ana", "Bob"])),
        maybe(texts(&["A", "B"])),
        maybe(rosters),
    );
    fields.prop_map(|(email, external_id, phone, name, company, travelers)| {
        let names = ["email", "externalId", "phone", "name", "company", "travelers"];
        object(names, [email, external_id, phone, name, company, travelers])
    })
}

fn brief() -> impl Strategy<Value = Value> {
    let parties = vec![json!({"adults": 2}), json!({"adults": 3, "childAges": [4]})];
    let fields = (
        maybe(texts(&["Trip", "Other"])),
        maybe(texts(&["Goa", "Kerala"])),
        maybe(parties),
        maybe(texts(&["", "IN"])),
        maybe(texts(&["Hello"])),
        maybe(vec![json!({"title": "x", "days": []}), json!({"title": "y", "days": []})]),
    );
    fields.prop_map(|(title, destination, party, nationality, message, itinerary)| {
        let names = ["title", "destination", "party", "guestNationality", "message", "itinerary"];
        object(names, [title, destination, party, nationality, message, itinerary])
    })
}

fn lead_patch() -> impl Strategy<Value = Value> {
    let stages = ["inquiry", "follow_up", "building_proposal", "negotiation", "lost", "trip_booked", "archived"];
    let fields = (
        maybe(texts(&stages)),
        maybe(texts(&["four", "a reason"])),
        maybe(texts(&["a@agency.com", "B@agency.com", "c@agency.com"])),
        maybe(vec![json!(true), json!(false)]),
        maybe(texts(&["Trip", "Other"])),
    );
    fields.prop_map(|(stage, reason, owner, follow_up, title)| {
        object(["stage", "reason", "owner", "followUp", "title"], [stage, reason, owner, follow_up, title])
    })
}

pub(super) fn any_write() -> impl Strategy<Value = AnyWrite> {
    prop_oneof![
        2 => person().prop_map(AnyWrite::NewClient),
        4 => (any::<Index>(), person()).prop_map(|(place, body)| AnyWrite::Client(place, body)),
        2 => (option::of(any::<Index>()), person(), brief()).prop_map(|(place, person, mut body)| {
            let mut contact = person;
            for other in ["company", "travelers"] {
                contact.as_object_mut().unwrap().remove(other);
            }
            body["contact"] = contact;
            AnyWrite::NewLead(place, body)
        }),
        3 => (any::<Index>(), lead_patch()).prop_map(|(place, body)| AnyWrite::Lead(place, body)),
        4 => (any::<Index>(), brief()).prop_map(|(place, body)| AnyWrite::Trip(place, body)),
    ]
}

/// The records that were made so far.
#[derive(Debug, Default)]
pub(super) struct Pool {
    clients: Vec<ClientId>,
    leads: Vec<LeadId>,
}

impl Pool {
    pub(super) fn add_created(&mut self, write: &Write, made: &Value) {
        match write {
            Write::NewClient(_) => self.add_client(client_id(&made["id"])),
            Write::NewLead(_) => {
                self.add_client(client_id(&made["clientId"]));
                self.leads.push(lead_id(&made["id"]));
            }
            Write::Client(..) | Write::Lead(..) | Write::Trip(..) => {}
        }
    }

    fn add_client(&mut self, id: ClientId) {
        if !self.clients.contains(&id) {
            self.clients.push(id);
        }
    }

    /// All of them as the API shows them, by id.
    pub(super) fn shown(&self, simulation: &Simulation) -> BTreeMap<String, Value> {
        let state = simulation.all();
        let clients = self.clients.iter().map(|id| Record::Client(*id));
        let leads = self.leads.iter().flat_map(|id| [Record::Lead(*id), Record::Trip(*id, None)]);
        let shown = clients.chain(leads).map(|record| shown(&state, record));
        shown.map(|record| (record["id"].to_string(), record)).collect()
    }

    fn client(&self, place: Index) -> ClientId {
        if self.clients.is_empty() { ClientId(Uuid::nil()) } else { *place.get(&self.clients) }
    }

    fn lead(&self, place: Index) -> LeadId {
        if self.leads.is_empty() { LeadId(Uuid::nil()) } else { *place.get(&self.leads) }
    }
}

impl AnyWrite {
    /// The write, to existing records.
    pub(super) fn write(&self, pool: &Pool) -> Write {
        match self {
            Self::NewClient(body) => Write::NewClient(read(body)),
            Self::Client(place, body) => Write::Client(pool.client(*place), read(body)),
            Self::NewLead(place, body) => {
                let mut body = body.clone();
                if let Some(place) = place {
                    body["clientId"] = json!(pool.client(*place));
                }
                Write::NewLead(Box::new(read(&body)))
            }
            Self::Lead(place, body) => Write::Lead(pool.lead(*place), read(body)),
            Self::Trip(place, body) => Write::Trip(pool.lead(*place), Box::new(read(body))),
        }
    }
}

fn read<T: RecordBody>(body: &Value) -> T {
    parse(body.to_string().as_bytes()).unwrap()
}
