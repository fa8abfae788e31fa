//! Bodies generated from a schema, at its limits and just beyond them. [`accepts`] validates a body against a schema as
//! validators do.

use chrono::{DateTime, NaiveDate};
use ingest::openapi::document::Document;
use ingest::openapi::schema::Schema;
use ingest::openapi::{BLANK, HAS_DIGIT, NOT_BLANK, RESERVED};
use serde_json::{Map, Value, json};

/// An id of a record.
pub(super) const ID: &str = "0199c0de-7a3b-7c11-9d1e-3f5a8b2c4d6e";
pub(super) const TEXT: &str = "text 1";

/// A body, and whether the schema takes it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// Where it differs from an ordinary one.
    pub(super) place: String,
    pub(super) body: Value,
    /// Whether the schema takes it.
    pub(super) is_valid: bool,
}

/// A named schema of the document, which must be there.
#[track_caller]
pub(super) fn schema_named<'d>(document: &'d Document, name: &str) -> &'d Schema {
    document.schema(name).unwrap_or_else(|| panic!("no schema {name}"))
}

/// The document with the batch as the events route accepts it. The served one describes what callers should send: events
/// whose payloads match the schemas of their types.
pub(super) fn document_as_accepted() -> Document {
    let mut document = ingest::openapi::document();
    let schemas = document.components.schemas.iter_mut();
    let batch = schemas.filter(|(name, _)| name == "EventBatch").map(|(_, schema)| schema).next();
    let batch = batch.expect("a batch");
    let items = batch.properties.iter_mut().find_map(|(_, field)| field.items.as_mut()).expect("events");
    assert_eq!(items.reference.as_deref(), Some("Event"));
    items.reference = Some("InboundEvent".to_owned());
    document
}

/// Bodies that differ in one place each from one that has every field.
pub(super) fn cases(document: &Document, schema: &Schema) -> Vec<Case> {
    cases_of(document, schema, &typical_value(document, schema))
}

/// Bodies that differ in one place each from `base`.
pub(super) fn cases_of(document: &Document, schema: &Schema, base: &Value) -> Vec<Case> {
    let bodies = [(String::new(), base.clone())].into_iter().chain(variants(document, schema, base));
    bodies.map(|(place, body)| Case { place, is_valid: accepts(document, schema, &body), body }).collect()
}

fn resolved<'d>(document: &'d Document, schema: &'d Schema) -> &'d Schema {
    schema.reference.as_deref().map_or(schema, |name| schema_named(document, name))
}

/// A schema's alternatives, where it is nothing else.
fn choices(schema: &Schema) -> &[Schema] {
    if !schema.properties.is_empty() {
        return &[];
    }
    if schema.one_of.is_empty() { &schema.any_of } else { &schema.one_of }
}

/// An ordinary value of a schema.
pub(super) fn typical_value(document: &Document, schema: &Schema) -> Value {
    let schema = resolved(document, schema);
    if let Some(value) = schema.constant.as_ref().or(schema.values.first()) {
        return value.clone();
    }
    if let Some(choice) = choices(schema).first() {
        return typical_value(document, choice);
    }
    match schema.types.first().copied() {
        Some("object") => {
            let fields = schema
                .properties
                .iter()
                .map(|(name, field)| ((*name).to_owned(), typical_value(document, field)));
            Value::Object(fields.collect())
        }
        Some("array") => json!([typical_value(document, schema.items.as_ref().expect("items"))]),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        Some(_) | None if schema.pattern == Some(BLANK) => json!(" "),
        Some(_) | None => json!(text(schema.format)),
    }
}

fn text(format: Option<&str>) -> &'static str {
    match format {
        Some("email") => "ana@example.com",
        Some("date") => "2026-05-01",
        Some("date-time") => "2026-05-01T10:00:00Z",
        Some("uuid") => ID,
        Some("iso-4217") => "EUR",
        Some("iso-3166-1-alpha-2") => "DE",
        Some(other) => panic!("no example of the format {other}"),
        None => TEXT,
    }
}

/// Values that fit a schema and values that do not, each with its place. Those of an object differ from `base` in one
/// field.
fn variants(document: &Document, schema: &Schema, base: &Value) -> Vec<(String, Value)> {
    let schema = resolved(document, schema);
    let choices = choices(schema);
    if !choices.is_empty() {
        let of = |choice| variants(document, choice, &typical_value(document, choice));
        let ordinary = choices.iter().map(|choice| (String::new(), typical_value(document, choice)));
        return ordinary.chain(choices.iter().flat_map(of)).collect();
    }
    let of_all_types =
        [Value::Null, json!(TEXT), json!(true), json!([]), json!(0.5), json!(7), json!({})].into_iter();
    let values = schema.values.iter().cloned();
    let here = of_all_types.chain(values).chain(texts(schema)).chain(numbers(schema));
    let mut variants: Vec<_> = here.map(|value| (String::new(), value)).collect();
    if schema.types.contains(&"array") {
        variants.extend(arrays(document, schema));
    }
    if !schema.properties.is_empty() {
        variants.extend(objects(document, schema, base));
    }
    variants
}

fn texts(schema: &Schema) -> Vec<Value> {
    if !schema.types.contains(&"string") {
        return Vec::new();
    }
    let mut texts = vec![json!(""), json!(" \t\u{85}"), json!("something else"), json!("none")];
    if let Some(max) = schema.max_length {
        texts.extend(long(schema.format, max).map(Value::from));
    }
    texts.extend(schema.not.iter().map(|_| json!("connect-api:1")));
    let of_format: &[&str] = match schema.format {
        Some("email") => &["ana", "ana@", "@example.com"],
        Some("date") => &["2026-02-30", "2026-2-1", "2026-05-01T10:00:00Z"],
        Some("date-time") => &["2026-05-01", "2026-05-01T10:00:00", "2026-05-01 10:00:00Z"],
        Some("uuid") => &["0199c0de", "0199c0de-7a3b-7c11-9d1e-3f5a8b2c4d6g"],
        Some("iso-4217") => &["eur", "EURO", "QQQ"],
        Some("iso-3166-1-alpha-2") => &["de", "DEU", "QQ"],
        Some(_) | None => &[],
    };
    texts.extend(of_format.iter().map(|text| json!(text)));
    texts
}

/// A text of the maximum length, and a longer one. Most of their characters have two bytes, so that a length in bytes
/// would differ.
fn long(format: Option<&str>, max: usize) -> [String; 2] {
    if format == Some("email") {
        // Neither a mailbox nor a domain may be longer than the first one's: an address can't have 320 characters.
        let domain = |last| format!("{0}.{0}.{0}.{1}", "d".repeat(63), "d".repeat(last));
        return [(64, 62), (65, max - 65 - 1 - 192 + 1)]
            .map(|(local, last)| format!("{}@{}", "a".repeat(local), domain(last)));
    }
    ["é".repeat(max - 1) + "1", "é".repeat(max) + "1"]
}

fn numbers(schema: &Schema) -> Vec<Value> {
    let limits = schema.minimum.iter().chain(&schema.maximum);
    let around = limits.flat_map(|limit| match limit.as_i64() {
        Some(limit) => [json!(limit - 1), json!(limit), json!(limit + 1)],
        None => [json!(limit), json!(1e13), json!(9_999_999_999_999_u64)],
    });
    let of_64_bits = [json!(i64::MIN), json!(i64::MAX), json!(u64::MAX)].into_iter();
    around.chain(of_64_bits.filter(|_| schema.format == Some("int64"))).collect()
}

fn arrays(document: &Document, schema: &Schema) -> Vec<(String, Value)> {
    let items = schema.items.as_ref().expect("items");
    let item = typical_value(document, items);
    let counts = schema.max_items.into_iter().flat_map(|max| [max, max + 1]);
    let mut arrays: Vec<_> =
        counts.map(|count| (String::new(), Value::Array(vec![item.clone(); count]))).collect();
    let varied = variants(document, items, &item).into_iter();
    arrays.extend(varied.map(|(place, item)| (format!("[0]{place}"), json!([item]))));
    arrays
}

fn objects(document: &Document, schema: &Schema, base: &Value) -> Vec<(String, Value)> {
    let fields: Map<String, Value> = base.as_object().cloned().unwrap_or_default();
    let with = |name: &str, value: Value| {
        let mut fields = fields.clone();
        fields.insert(name.to_owned(), value);
        Value::Object(fields)
    };
    let mut objects = vec![(".unknown".to_owned(), with("unknown", json!(1)))];
    for (name, field) in &schema.properties {
        let mut without = fields.clone();
        without.remove(*name);
        objects.push((format!(".{name} left out"), Value::Object(without)));
        let usual = fields.get(*name).cloned().unwrap_or_else(|| typical_value(document, field));
        objects.push((format!(".{name}"), with(name, usual.clone())));
        let varied = variants(document, field, &usual).into_iter();
        objects.extend(varied.map(|(place, value)| (format!(".{name}{place}"), with(name, value))));
    }
    objects
}

/// Whether a schema takes a value.
pub(super) fn accepts(document: &Document, schema: &Schema, value: &Value) -> bool {
    let schema = resolved(document, schema);
    let count = |choices: &[Schema]| choices.iter().filter(|choice| accepts(document, choice, value)).count();
    (schema.types.is_empty() || schema.types.iter().any(|kind| is_of(kind, value)))
        && schema.constant.as_ref().is_none_or(|only| only == value)
        && (schema.values.is_empty() || schema.values.contains(value))
        && schema.all_of.iter().all(|part| accepts(document, part, value))
        && (schema.any_of.is_empty() || count(&schema.any_of) > 0)
        && (schema.one_of.is_empty() || count(&schema.one_of) == 1)
        && schema.not.as_ref().is_none_or(|not| !accepts(document, not, value))
        && match value {
            Value::String(text) => accepts_text(schema, text),
            Value::Number(number) => accepts_number(schema, number.as_f64().unwrap_or(f64::NAN)),
            Value::Array(items) => accepts_items(document, schema, items),
            Value::Object(fields) => accepts_fields(document, schema, fields),
            Value::Null | Value::Bool(_) => true,
        }
        && (schema.format != Some("int64")
            || value.as_u64().is_none_or(|number| i64::try_from(number).is_ok()))
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("no type {other}"),
    }
}

fn accepts_text(schema: &Schema, text: &str) -> bool {
    let length = text.chars().count();
    let fits = schema.min_length.is_none_or(|min| length >= min)
        && schema.max_length.is_none_or(|max| length <= max);
    let is_of_pattern = match schema.pattern {
        Some(NOT_BLANK) => !text.trim().is_empty(),
        Some(BLANK) => text.trim().is_empty(),
        Some(HAS_DIGIT) => text.contains(|c: char| c.is_ascii_digit()),
        Some(RESERVED) => text.starts_with("connect-api:"),
        // Those of codes: their formats say more.
        Some(_) if schema.format.is_some() => true,
        Some(other) => panic!("no pattern {other}"),
        None => true,
    };
    fits && is_of_pattern && schema.format.is_none_or(|format| is_of_format(format, text))
}

fn is_of_format(format: &str, text: &str) -> bool {
    match format {
        "email" => {
            text.split_once('@').is_some_and(|(mailbox, domain)| !mailbox.is_empty() && !domain.is_empty())
        }
        "date" => text.len() == 10 && NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok(),
        "date-time" => text.contains('T') && DateTime::parse_from_rfc3339(text).is_ok(),
        "uuid" => uuid::Uuid::try_parse(text).is_ok(),
        "iso-4217" => ["EUR", "INR"].contains(&text),
        "iso-3166-1-alpha-2" => ["", "DE"].contains(&text),
        other => panic!("no format {other}"),
    }
}

fn accepts_number(schema: &Schema, number: f64) -> bool {
    let limit = |limit: &serde_json::Number| limit.as_f64().expect("a number");
    schema.minimum.as_ref().is_none_or(|min| number >= limit(min))
        && schema.maximum.as_ref().is_none_or(|max| number <= limit(max))
}

fn accepts_items(document: &Document, schema: &Schema, items: &[Value]) -> bool {
    schema.min_items.is_none_or(|min| items.len() >= min)
        && schema.max_items.is_none_or(|max| items.len() <= max)
        && schema.items.as_ref().is_none_or(|of| items.iter().all(|item| accepts(document, of, item)))
}

fn accepts_fields(document: &Document, schema: &Schema, fields: &Map<String, Value>) -> bool {
    schema.required.iter().all(|name| fields.contains_key(*name))
        && schema.min_properties.is_none_or(|min| fields.len() >= min)
        && fields.iter().all(|(name, value)| match schema.property(name) {
            Some(field) => accepts(document, field, value),
            None => schema.additional_properties != Some(false),
        })
}
