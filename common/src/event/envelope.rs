//! The inbound envelope (specification: Event envelope; D6).
//!
//! Ingest checks a batch and parses it; the worker parses it in the same way, and does not check its JSON again: the
//! message's MAC says that ingest did. Payloads are kept byte for byte.

use super::fault::Faults;
use super::fields::{EventTexts, Fields, Text};
use super::json::check_json;
use super::kind::InboundType;
use crate::model::{Email, Phone, parse_instant, text};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Maximum number of events in a batch.
pub const BATCH_MAX: usize = 100;
/// Prefix of the event ids under which the records API writes; partners must not send it.
pub const RESERVED_PREFIX: &str = "connect-api:";

/// A valid inbound event.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    /// Idempotency key within the tenant (D7).
    pub event_id: String,
    /// The event's type, one of the twelve inbound ones.
    pub event_type: InboundType,
    /// When it happened, as sent; between the years 1 and 9999.
    pub occurred_at: DateTime<Utc>,
    /// The system that emitted the event.
    pub origin: String,
    /// The traveler that the event is about.
    pub actor: Actor,
    /// A JSON object, byte for byte as sent; `None` when absent or null.
    pub payload: Option<&'a RawValue>,
}

/// The traveler that an event is about. At least one of email, phone and external id is present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// Strongest identity.
    pub email: Option<Email>,
    /// Weakest identity.
    pub phone: Option<Phone>,
    /// The caller's own id of the person.
    pub external_id: Option<String>,
    /// Full name.
    pub name: Option<String>,
}

/// Parses and checks a batch, `{"events": [..]}`, of `tenant`. Any fault refuses the whole batch.
pub fn read_batch<'a>(body: &'a [u8], tenant: &str) -> Result<Vec<Envelope<'a>>, Faults> {
    check_json(body).and_then(|text| parse(text, tenant))
}

/// Parses a batch that [`read_batch`] has accepted: what the JSON in it may be is not checked again.
pub fn parse_batch<'a>(body: &'a [u8], tenant: &str) -> Result<Vec<Envelope<'a>>, Faults> {
    let text = std::str::from_utf8(body).map_err(|_| Faults::one("", "is not valid UTF-8"))?;
    parse(text, tenant)
}

fn parse<'a>(body: &'a str, tenant: &str) -> Result<Vec<Envelope<'a>>, Faults> {
    let events = match serde_json::from_str(body) {
        Ok(EventTexts(events)) => events,
        // Looks again for what is wrong.
        Err(_) => {
            let fields: Fields = serde_json::from_str(body).map_err(|_| Faults::one("", "must be an object"))?;
            let events = fields.get("events").map(|events| serde_json::from_str(events.get()));
            events.transpose().map_err(|_| Faults::one("events", "must be an array"))?
        }
    };
    let events: Vec<&RawValue> = events.ok_or_else(|| Faults::one("events", "is required"))?;
    if events.is_empty() || events.len() > BATCH_MAX {
        return Err(Faults::one("events", "must have 1 to 100 events"));
    }
    let mut reader = Reader { tenant, index: 0, object: "", faults: Faults::default() };
    let read = events.iter().enumerate().filter_map(|(i, event)| reader.envelope(i, event)).collect();
    if reader.faults.is_empty() { Ok(read) } else { Err(reader.faults) }
}

/// Parses envelopes and collects their faults. A method returns `None` after it has added a fault.
struct Reader<'t> {
    tenant: &'t str,
    /// The event in the batch, and the object in it: nothing, or `.actor`.
    index: usize,
    object: &'static str,
    faults: Faults,
}

impl Reader<'_> {
    fn fault(&mut self, field: &str, what: impl Into<String>) {
        let (index, object, dot) = (self.index, self.object, if field.is_empty() { "" } else { "." });
        self.faults.push(format!("events[{index}]{object}{dot}{field}"), what);
    }

    fn envelope<'a>(&mut self, index: usize, event: &'a RawValue) -> Option<Envelope<'a>> {
        self.index = index;
        let Ok(fields) = serde_json::from_str::<Fields>(event.get()) else {
            self.fault("", "must be an object");
            return None;
        };
        let version = self.required(&fields, "specVersion", 16);
        if version.is_some_and(|version| version != "1.0") {
            self.fault("specVersion", "must be 1.0");
        }
        let event_id = self.event_id(&fields);
        let event_type = self.event_type(&fields);
        let occurred_at = self.occurred_at(&fields);
        self.check_tenant(&fields);
        let origin = self.required(&fields, "origin", text::ENVELOPE_ID);
        let origin = origin.map(|origin| origin.trim().to_owned());
        let payload = self.payload(&fields);
        let actor = self.actor(&fields);
        Some(Envelope {
            event_id: event_id?,
            event_type: event_type?,
            occurred_at: occurred_at?,
            origin: origin?,
            actor: actor?,
            payload: payload?,
        })
    }

    fn event_id(&mut self, fields: &Fields<'_>) -> Option<String> {
        let id = self.required(fields, "eventId", text::ENVELOPE_ID)?;
        if id.starts_with(RESERVED_PREFIX) {
            self.fault("eventId", "must not start with connect-api:");
            return None;
        }
        Some(id.into_owned())
    }

    fn event_type(&mut self, fields: &Fields<'_>) -> Option<InboundType> {
        let name = self.required(fields, "eventType", usize::MAX)?;
        let kind = InboundType::parse(&name);
        if kind.is_none() {
            let types: Vec<&str> = InboundType::ALL.iter().map(|known| known.as_str()).collect();
            self.fault("eventType", format!("must be one of {}", types.join(", ")));
        }
        kind
    }

    fn occurred_at(&mut self, fields: &Fields<'_>) -> Option<DateTime<Utc>> {
        let instant = self.required(fields, "occurredAt", usize::MAX)?;
        match parse_instant(&instant) {
            Some(at) => Some(at),
            None => {
                self.fault("occurredAt", "must be an RFC 3339 date-time with an offset");
                None
            }
        }
    }

    fn check_tenant(&mut self, fields: &Fields<'_>) {
        let Some(tenant) = self.required(fields, "tenant", text::ENVELOPE_ID) else { return };
        if !tenant.trim().eq_ignore_ascii_case(self.tenant) {
            self.fault("tenant", "must be the slug of the key's tenant, as in X-Connect-Tenant");
        }
    }

    fn payload<'a>(&mut self, fields: &Fields<'a>) -> Option<Option<&'a RawValue>> {
        let Some(payload) = fields.get("payload") else { return Some(None) };
        if payload.get().starts_with('{') {
            return Some(Some(payload));
        }
        self.fault("payload", "must be an object");
        None
    }

    fn actor(&mut self, fields: &Fields<'_>) -> Option<Actor> {
        let Some(actor) = fields.get("actor") else {
            self.fault("actor", "is required");
            return None;
        };
        let Ok(fields) = serde_json::from_str::<Fields>(actor.get()) else {
            self.fault("actor", "must be an object");
            return None;
        };
        self.object = ".actor";
        let before = self.faults.0.len();
        let actor = self.actor_fields(&fields);
        if self.faults.0.len() == before
            && actor.email.is_none()
            && actor.phone.is_none()
            && actor.external_id.is_none()
        {
            self.fault("", "must have at least one of email, phone, externalId");
        }
        self.object = "";
        (self.faults.0.len() == before).then_some(actor)
    }

    fn actor_fields(&mut self, fields: &Fields<'_>) -> Actor {
        let kind = self.required(fields, "type", usize::MAX);
        if kind.is_some_and(|kind| kind != "contact") {
            self.fault("type", "must be contact");
        }
        let email = self.optional(fields, "email", text::EMAIL).map(|sent| Email::parse(&sent));
        let email = email.and_then(|email| email.map_err(|what| self.fault("email", what)).ok());
        let phone = self.optional(fields, "phone", text::PHONE).map(|sent| Phone::parse(&sent));
        let phone = phone.and_then(|phone| phone.map_err(|what| self.fault("phone", what)).ok()).flatten();
        let external_id = self.optional(fields, "externalId", text::EXTERNAL_ID).map(Cow::into_owned);
        let name = self.optional(fields, "name", text::NAME).map(Cow::into_owned);
        Actor { email, phone, external_id, name }
    }

    fn required<'a>(&mut self, fields: &Fields<'a>, field: &str, max: usize) -> Option<Cow<'a, str>> {
        let Some(value) = fields.get(field) else {
            self.fault(field, "is required");
            return None;
        };
        let text = self.string(value, field, max)?;
        if text::is_blank(&text) {
            self.fault(field, "must not be empty");
            return None;
        }
        Some(text)
    }

    /// A trimmed string; null and empty count as absent (D6).
    fn optional<'a>(&mut self, fields: &Fields<'a>, field: &str, max: usize) -> Option<Cow<'a, str>> {
        let text = match self.string(fields.get(field)?, field, usize::MAX)? {
            Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
            Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
        };
        if text::is_blank(&text) || !self.check_length(&text, field, max) {
            return None;
        }
        Some(text)
    }

    fn string<'a>(&mut self, value: &'a RawValue, field: &str, max: usize) -> Option<Cow<'a, str>> {
        let Ok(Text(text)) = serde_json::from_str(value.get()) else {
            self.fault(field, "must be a string");
            return None;
        };
        self.check_length(&text, field, max).then_some(text)
    }

    fn check_length(&mut self, text: &str, field: &str, max: usize) -> bool {
        if !text::fits(text, max) {
            self.fault(field, format!("must have at most {max} characters"));
            return false;
        }
        true
    }
}
