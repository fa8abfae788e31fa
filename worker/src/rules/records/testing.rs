//! Records writes in memory, for the tests of their rules. Bodies are given as JSON and parsed as ingest and worker parse
//! them; records are returned as the API shows them.

#![expect(clippy::needless_pass_by_value, reason = "tests hand json! values in where they stand")]

use super::{Record, Write, write};
use crate::record_body;
use crate::rules::Cause;
use crate::rules::testing::{World, refusal};
use common::model::{ClientId, LeadId};
use common::record::parse;
use common::write::{IfMatch, WriteRefusal};
use serde_json::Value;

/// The record that a write returned, as the API shows it, or its refusal.
pub(super) type Shown = Result<Value, WriteRefusal>;

impl World {
    /// Applies a `POST /clients`.
    pub(super) fn post_client(&mut self, body: Value) -> Shown {
        self.write(&Write::NewClient(parse(&bytes(&body)).unwrap()), None)
    }

    /// `PATCH` of a client that was shown.
    pub(super) fn patch_client(&mut self, client: &Value, body: Value) -> Shown {
        self.patch_client_if(client, body, None)
    }

    /// [`patch_client`](Self::patch_client) with a condition.
    pub(super) fn patch_client_if(&mut self, client: &Value, body: Value, condition: Option<&IfMatch>) -> Shown {
        self.write(&Write::Client(client_id(&client["id"]), parse(&bytes(&body)).unwrap()), condition)
    }

    /// Applies a `POST /leads`.
    pub(super) fn post_lead(&mut self, body: Value) -> Shown {
        self.write(&Write::NewLead(Box::new(parse(&bytes(&body)).unwrap())), None)
    }

    /// `PATCH` of a lead that was shown.
    pub(super) fn patch_lead(&mut self, lead: &Value, body: Value) -> Shown {
        self.patch_lead_if(lead, body, None)
    }

    /// [`patch_lead`](Self::patch_lead) with a condition.
    pub(super) fn patch_lead_if(&mut self, lead: &Value, body: Value, condition: Option<&IfMatch>) -> Shown {
        self.write(&Write::Lead(lead_id(&lead["id"]), parse(&bytes(&body)).unwrap()), condition)
    }

    /// `PATCH` of the trip of a lead that was shown.
    pub(super) fn patch_trip(&mut self, lead: &Value, body: Value) -> Shown {
        self.patch_trip_if(lead, body, None)
    }

    /// [`patch_trip`](Self::patch_trip) with a condition.
    pub(super) fn patch_trip_if(&mut self, lead: &Value, body: Value, condition: Option<&IfMatch>) -> Shown {
        self.write(&Write::Trip(lead_id(&lead["id"]), Box::new(parse(&bytes(&body)).unwrap())), condition)
    }

    /// Applies a write as the worker does, and checks that a refused one does not change the state.
    pub(super) fn write(&mut self, body: &Write, condition: Option<&IfMatch>) -> Shown {
        self.write_record(body, condition, false).map(|record| self.shown(record))
    }

    /// [`write`](Self::write), with the itinerary left out or not.
    pub(super) fn write_record(
        &mut self, body: &Write, condition: Option<&IfMatch>, skip_itinerary: bool,
    ) -> Result<Record, WriteRefusal> {
        let (before, cause) = (self.snapshot(), cause(self));
        let done = self.run(|state, ctx| write(state, body, condition, skip_itinerary, &cause, ctx));
        assert!(done.is_ok() || self.snapshot() == before, "{done:?} changed the state");
        done.map_err(refusal)
    }

    /// A record as the API shows it.
    pub(super) fn shown(&self, record: Record) -> Value {
        let (body, _) = record_body::render(&self.state, record).unwrap();
        serde_json::from_str::<Value>(body.get()).unwrap()["data"].take()
    }

    pub(super) fn lead_now(&self, lead: &Value) -> Value {
        self.shown(Record::Lead(lead_id(&lead["id"])))
    }

    pub(super) fn trip_now(&self, lead: &Value) -> Value {
        self.shown(Record::Trip(lead_id(&lead["id"]), None))
    }

    /// Clears inbox, notifications and outbox.
    pub(super) fn clear_messages(&mut self) {
        self.state.inbox.clear();
        self.state.notifications.clear();
        self.state.outbox.clear();
    }
}

/// The caller, with the origin that its key is registered with.
fn cause(world: &World) -> Cause {
    let (key_prefix, origin) = (Some("ck_test".to_owned()), "acme-app".to_owned());
    Cause { key_prefix, origin, occurred_at: world.now, request_context: None }
}

/// The condition that a record has the version that was shown.
pub(super) fn if_match(shown: &Value) -> IfMatch {
    IfMatch::OneOf(vec![format!("\"{}\"", shown["updatedAt"].as_str().unwrap())])
}

pub(super) fn client_id(id: &Value) -> ClientId {
    ClientId::parse(id.as_str().unwrap()).unwrap()
}

pub(super) fn lead_id(id: &Value) -> LeadId {
    LeadId::parse(id.as_str().unwrap()).unwrap()
}

fn bytes(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}
