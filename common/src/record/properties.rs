//! Properties of the parser: every valid body is accepted, and a single fault is always reported with its place.

mod bodies;

use super::{BodyError, ClientBody, LeadBody, LeadPatch, RecordBody, TripPatch, canonical, parse};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

type Read = fn(&[u8]) -> Result<(), BodyError>;

fn read<T: RecordBody>(body: &[u8]) -> Result<(), BodyError> {
    parse::<T>(body).map(drop)
}

fn any_body() -> impl Strategy<Value = (Read, Value)> {
    prop_oneof![
        bodies::client().prop_map(|body| (read::<ClientBody> as Read, body)),
        bodies::lead().prop_map(|body| (read::<LeadBody> as Read, body)),
        bodies::lead_patch().prop_map(|body| (read::<LeadPatch> as Read, body)),
        bodies::trip_patch().prop_map(|body| (read::<TripPatch> as Read, body)),
    ]
}

/// The place of a value: as a JSON pointer, and as faults name it.
#[derive(Clone, Debug, Default)]
struct Place {
    pointer: String,
    name: String,
}

impl Place {
    fn field(&self, field: &str) -> Self {
        let separator = if self.name.is_empty() { "" } else { "." };
        let (pointer, name) = (&self.pointer, &self.name);
        Self { pointer: format!("{pointer}/{field}"), name: format!("{name}{separator}{field}") }
    }

    fn item(&self, i: usize) -> Self {
        Self { pointer: format!("{}/{i}", self.pointer), name: format!("{}[{i}]", self.name) }
    }
}

/// All values of a body, outermost first. The content of an itinerary's items is left out, because it may be any JSON.
fn places(value: &Value, at: Place) -> Vec<Place> {
    let is_item = at.name.starts_with("itinerary.") && at.name.contains(".items[");
    let inner: Vec<Place> = match value {
        Value::Object(_) if is_item => Vec::new(),
        Value::Object(fields) => fields.iter().flat_map(|(name, value)| places(value, at.field(name))).collect(),
        Value::Array(items) => items.iter().enumerate().flat_map(|(i, item)| places(item, at.item(i))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    [vec![at], inner].concat()
}

/// Whether `read` refuses the body with this fault, and names no other place than this one or what is around it.
fn finds(read: Read, body: &Value, place: &str, what: &str) -> bool {
    let Err(BodyError::Invalid(faults)) = read(body.to_string().as_bytes()) else { return false };
    faults.0.iter().any(|fault| fault.place == place && fault.what == what)
        && faults.0.iter().all(|fault| place.starts_with(&fault.place))
}

proptest! {
    #[test]
    fn a_valid_body_is_always_read((read, body) in any_body()) {
        prop_assert_eq!(read(body.to_string().as_bytes()), Ok(()));
        let pretty = serde_json::to_string_pretty(&body).unwrap();
        prop_assert_eq!(read(pretty.as_bytes()), Ok(()));
    }

    #[test]
    fn an_unknown_field_is_found_wherever_it_stands((read, body) in any_body(), index: Index) {
        let mut objects = places(&body, Place::default());
        objects.retain(|place| body.pointer(&place.pointer).is_some_and(Value::is_object));
        objects.retain(|place| !place.name.contains(".items["));
        let place = index.get(&objects);
        let mut body = body.clone();
        body.pointer_mut(&place.pointer).unwrap()["unheardOf"] = json!(1);
        let at = place.field("unheardOf").name;
        prop_assert!(finds(read, &body, &at, "is not a known field"), "{} in {}", at, body);
    }

    #[test]
    fn a_null_is_found_wherever_it_stands((read, body) in any_body(), index: Index) {
        let all = places(&body, Place::default());
        let place = index.get(&all);
        let mut body = body.clone();
        *body.pointer_mut(&place.pointer).unwrap() = Value::Null;
        prop_assert!(finds(read, &body, &place.name, "must not be null"), "{} in {}", place.name, body);
    }

    #[test]
    fn a_body_is_the_same_however_it_is_laid_out((_, body) in any_body(), (_, other) in any_body()) {
        let (compact, pretty) = (body.to_string(), serde_json::to_string_pretty(&body).unwrap());
        prop_assert_eq!(canonical(compact.as_bytes()), canonical(pretty.as_bytes()));
        let same = canonical(compact.as_bytes()) == canonical(other.to_string().as_bytes());
        prop_assert_eq!(same, body == other);
    }
}
