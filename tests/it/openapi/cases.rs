//! Bodies generated from a schema, at its limits and just beyond them.

use serde_json::{Map, Value, json};
use tests::api_description::{resolved, validator};
use tests::text;

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

/// Bodies that differ in one place each from `base`.
pub(super) fn cases(document: &Value, schema: &Value, base: &Value) -> Vec<Case> {
    let validator = validator(document, schema);
    let bodies = [(String::new(), base.clone())].into_iter().chain(variants(document, schema, base));
    bodies.map(|(place, body)| Case { place, is_valid: validator.is_valid(&body), body }).collect()
}

fn items(schema: &Value, name: &str) -> Vec<Value> {
    schema[name].as_array().cloned().unwrap_or_default()
}

/// A schema's alternatives, where it is nothing else.
fn choices(schema: &Value) -> Vec<Value> {
    if schema["properties"].is_object() {
        Vec::new()
    } else {
        [items(schema, "oneOf"), items(schema, "anyOf")].concat()
    }
}

fn is_of(schema: &Value, kind: &str) -> bool {
    schema["type"] == kind || items(schema, "type").contains(&json!(kind))
}

/// An ordinary value of a schema, with every field.
pub(super) fn typical_value(document: &Value, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    if let Some(choice) = choices(schema).first() {
        return typical_value(document, choice);
    }
    let kind = schema["type"].get(0).unwrap_or(&schema["type"]).as_str();
    match kind.unwrap_or("string") {
        "object" => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            fields.map(|(name, field)| (name.clone(), typical_value(document, field))).collect()
        }
        "array" => json!([typical_value(document, &schema["items"])]),
        "integer" | "number" => json!(1),
        "boolean" => json!(true),
        "null" => Value::Null,
        _ if schema["pattern"].as_str().is_some_and(|pattern| pattern.starts_with("^[\\x09")) => json!(" "),
        _ => json!(match schema["format"].as_str() {
            Some("email") => "ana@example.com",
            Some("date") => "2026-05-01",
            Some("date-time") => "2026-05-01T10:00:00Z",
            Some("uuid") => ID,
            Some("iso-4217") => "EUR",
            Some("iso-3166-1-alpha-2") => "DE",
            Some(other) => panic!("no example of the format {other}"),
            None => TEXT,
        }),
    }
}

/// Values that fit a schema and values that do not, each with its place. Those of an object differ from `base` in one
/// field.
fn variants(document: &Value, schema: &Value, base: &Value) -> Vec<(String, Value)> {
    let schema = resolved(document, schema);
    let choices = choices(schema);
    if !choices.is_empty() {
        let of = |choice| variants(document, choice, &typical_value(document, choice));
        let ordinary = choices.iter().map(|choice| (String::new(), typical_value(document, choice)));
        return ordinary.chain(choices.iter().flat_map(of)).collect();
    }
    let of_all_types = [Value::Null, json!(TEXT), json!(true), json!([]), json!(0.5), json!(7), json!({})];
    let here = of_all_types.into_iter().chain(items(schema, "enum")).chain(texts(schema)).chain(numbers(schema));
    let mut variants: Vec<_> = here.map(|value| (String::new(), value)).collect();
    if is_of(schema, "array") {
        variants.extend(arrays(document, schema));
    }
    if schema["properties"].is_object() {
        variants.extend(objects(document, schema, base));
    }
    variants
}

fn texts(schema: &Value) -> Vec<Value> {
    if !is_of(schema, "string") {
        return Vec::new();
    }
    let mut texts = vec![json!(""), json!(" \t\u{85}"), json!("something else"), json!("none"), json!("connect-api:1")];
    let max = schema["maxLength"].as_u64().and_then(|max| usize::try_from(max).ok());
    texts.extend(max.into_iter().flat_map(|max| long(&schema["format"], max)).map(Value::from));
    let of_format: &[&str] = match schema["format"].as_str() {
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
fn long(format: &Value, max: usize) -> [String; 2] {
    if format == "email" {
        // Neither a mailbox nor a domain may be longer than the first one's: an address can't have 320 characters.
        let domain = |last| format!("{0}.{0}.{0}.{1}", "d".repeat(63), "d".repeat(last));
        return [(64, 62), (65, max - 65 - 1 - 192 + 1)]
            .map(|(local, last)| format!("{}@{}", "a".repeat(local), domain(last)));
    }
    ["é".repeat(max - 1) + "1", "é".repeat(max) + "1"]
}

fn numbers(schema: &Value) -> Vec<Value> {
    let limits = [&schema["minimum"], &schema["maximum"]].into_iter().filter(|limit| limit.is_number());
    let around = limits.flat_map(|limit| match limit.as_i64() {
        Some(limit) => [json!(limit - 1), json!(limit), json!(limit + 1)],
        None => [limit.clone(), json!(1e13), json!(9_999_999_999_999_u64)],
    });
    let of_64_bits = [json!(i64::MIN), json!(i64::MAX)].into_iter();
    around.chain(of_64_bits.filter(|_| schema["format"] == "int64")).collect()
}

fn arrays(document: &Value, schema: &Value) -> Vec<(String, Value)> {
    let item = typical_value(document, &schema["items"]);
    let max = schema["maxItems"].as_u64().and_then(|max| usize::try_from(max).ok());
    let full = max.into_iter().flat_map(|max| [max, max + 1]).map(|count| json!(vec![item.clone(); count]));
    let varied = variants(document, &schema["items"], &item).into_iter();
    let varied = varied.map(|(place, item)| (format!("[0]{place}"), json!([item])));
    full.map(|array| (String::new(), array)).chain(varied).collect()
}

fn objects(document: &Value, schema: &Value, base: &Value) -> Vec<(String, Value)> {
    let fields: Map<String, Value> = base.as_object().cloned().unwrap_or_default();
    let with = |name: &str, value: Value| {
        let mut fields = fields.clone();
        fields.insert(name.to_owned(), value);
        Value::Object(fields)
    };
    let mut objects = vec![(".unknown".to_owned(), with("unknown", json!(1)))];
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let mut without = fields.clone();
        without.remove(name);
        objects.push((format!(".{name} left out"), Value::Object(without)));
        let usual = fields.get(name).cloned().unwrap_or_else(|| typical_value(document, field));
        objects.push((format!(".{name}"), with(name, usual.clone())));
        let varied = variants(document, field, &usual).into_iter();
        objects.extend(varied.map(|(place, value)| (format!(".{name}{place}"), with(name, value))));
    }
    objects
}

/// A reference to a named schema.
pub(super) fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

pub(super) fn name_of(reference: &Value) -> &str {
    text(&reference["$ref"]).rsplit('/').next().expect("a name")
}
