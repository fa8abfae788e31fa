//! Bodies made from a schema: at its limits, and just beyond them.

use super::named;
use crate::openapi::document::Document;
use crate::openapi::schema::Schema;
use crate::openapi::{BLANK, HAS_DIGIT, NOT_BLANK};
use serde_json::{Map, Value, json};

/// A body, and whether the schema takes it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// Where it differs from an ordinary one.
    pub(super) place: String,
    /// The body.
    pub(super) body: Value,
    /// Whether the schema takes it.
    pub(super) is_valid: bool,
}

/// Bodies that differ in one place each from one that has every field.
pub(super) fn cases(document: &Document, schema: &Schema) -> Vec<Case> {
    let mut cases = vec![Case { place: String::new(), body: ordinary(document, schema), is_valid: true }];
    for (place, body, is_valid) in variants(document, schema) {
        cases.push(Case { place, body, is_valid });
    }
    cases
}

type Variant = (String, Value, bool);

/// A value that is in no way special.
fn ordinary(document: &Document, schema: &Schema) -> Value {
    let schema = resolved(document, schema);
    if let Some(value) = schema.constant.as_ref().or(schema.values.first()) {
        return value.clone();
    }
    if schema.properties.is_empty()
        && let Some(choice) = schema.one_of.first().or(schema.any_of.first())
    {
        return ordinary(document, choice);
    }
    match schema.types.first().copied() {
        Some("object") => {
            let fields =
                schema.properties.iter().map(|(name, field)| ((*name).to_owned(), ordinary(document, field)));
            Value::Object(fields.collect())
        }
        Some("array") => json!([ordinary(document, schema.items.as_ref().unwrap())]),
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
        Some("uuid") => "0199c0de-7a3b-7c11-9d1e-3f5a8b2c4d6e",
        Some("iso-4217") => "EUR",
        Some("iso-3166-1-alpha-2") => "DE",
        Some(other) => panic!("no example of the format {other}"),
        None => "text 1",
    }
}

fn resolved<'d>(document: &'d Document, schema: &'d Schema) -> &'d Schema {
    schema.reference.as_deref().map_or(schema, |name| named(document, name))
}

fn variants(document: &Document, schema: &Schema) -> Vec<Variant> {
    let schema = resolved(document, schema);
    if !schema.one_of.is_empty() {
        return schema.one_of.iter().flat_map(|choice| variants(document, choice)).collect();
    }
    if schema.properties.is_empty() && !schema.any_of.is_empty() {
        return schema
            .any_of
            .iter()
            .map(|choice| (String::new(), ordinary(document, choice), true))
            .collect();
    }
    let takes = |name: &str| schema.types.contains(&name);
    let mut variants: Vec<Variant> = Vec::new();
    let mut add = |value: Value, is_valid: bool| variants.push((String::new(), value, is_valid));
    add(Value::Null, takes("null"));
    for (name, other) in
        [("string", json!("text 1")), ("boolean", json!(true)), ("array", json!([])), ("number", json!(0.5))]
    {
        if !takes(name) {
            add(other, false);
        }
    }
    for value in &schema.values {
        add(value.clone(), true);
    }
    if takes("string") {
        texts(schema).into_iter().for_each(|(text, is_valid)| add(text, is_valid));
    }
    numbers(schema).into_iter().for_each(|(number, is_valid)| add(number, is_valid));
    if takes("array") {
        variants.extend(arrays(document, schema));
    }
    if takes("object") {
        variants.extend(objects(document, schema));
    }
    variants
}

fn texts(schema: &Schema) -> Vec<(Value, bool)> {
    let mut texts = Vec::new();
    if !schema.values.is_empty() || schema.constant.is_some() {
        texts.push((json!("something else"), false));
        return texts;
    }
    let is_free = schema.format.is_none();
    if let Some(max) = schema.max_length
        && is_free
    {
        // Not bytes: each of these has two.
        texts.extend([
            (json!(format!("{}1", "é".repeat(max - 1))), true),
            (json!("é".repeat(max) + "1"), false),
        ]);
    }
    match schema.pattern {
        Some(NOT_BLANK) => texts.extend([(json!(""), false), (json!(" \t\u{85}"), false)]),
        Some(HAS_DIGIT) => texts.push((json!("none"), false)),
        Some(_) => {}
        None => texts.extend(is_free.then(|| (json!(""), true))),
    }
    let wrong: &[&str] = match schema.format {
        Some("email") => &["", "ana", "ana@", "@example.com"],
        Some("date") => &["", "2026-02-30", "2026-2-1", "2026-05-01T10:00:00Z"],
        Some("date-time") => &["", "2026-05-01", "2026-05-01T10:00:00", "2026-05-01 10:00:00Z"],
        Some("iso-4217") => &["", "eur", "EURO", "QQQ"],
        Some("iso-3166-1-alpha-2") => &["de", "DEU", "QQ"],
        Some(_) | None => &[],
    };
    texts.extend(wrong.iter().map(|text| (json!(text), false)));
    texts
}

fn numbers(schema: &Schema) -> Vec<(Value, bool)> {
    let is_whole = schema.types.contains(&"integer");
    let mut numbers = Vec::new();
    if is_whole || schema.types.contains(&"number") {
        numbers.extend(schema.maximum.map(|max| (json!(max), true)));
        numbers.extend(schema.maximum.map(|max| (json!(u64::from(max) + 1), false)));
        numbers.extend(schema.minimum.map(|min| (json!(i64::from(min) - 1), false)));
        numbers.extend(schema.minimum.map(|min| (json!(min), true)));
        numbers.push((json!(0.5), !is_whole));
    }
    numbers
}

fn arrays(document: &Document, schema: &Schema) -> Vec<Variant> {
    let items = schema.items.as_ref().unwrap();
    let of = |count: usize| Value::Array(vec![ordinary(document, items); count]);
    let mut arrays = vec![(String::new(), of(0), schema.min_items.is_none())];
    if let Some(max) = schema.max_items {
        arrays.extend([(String::new(), of(max), true), (String::new(), of(max + 1), false)]);
    }
    let varied = variants(document, items).into_iter();
    arrays.extend(varied.map(|(place, item, is_valid)| (format!("[0]{place}"), json!([item]), is_valid)));
    arrays
}

fn objects(document: &Document, schema: &Schema) -> Vec<Variant> {
    let whole = ordinary(document, schema);
    let with = |name: &str, value: Value| {
        let mut fields: Map<String, Value> = whole.as_object().cloned().unwrap_or_default();
        fields.insert(name.to_owned(), value);
        Value::Object(fields)
    };
    let mut objects =
        vec![(".unknown".to_owned(), with("unknown", json!(1)), schema.additional_properties != Some(false))];
    for (name, field) in &schema.properties {
        let mut without = whole.clone();
        without.as_object_mut().unwrap().remove(*name);
        objects.push((format!(".{name} left out"), without, !schema.required.contains(name)));
        let varied = variants(document, field).into_iter();
        objects.extend(
            varied.map(|(place, value, is_valid)| (format!(".{name}{place}"), with(name, value), is_valid)),
        );
    }
    if schema.min_properties.is_some() {
        objects.push((String::new(), json!({}), false));
    }
    objects
}
