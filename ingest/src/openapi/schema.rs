//! JSON Schema (2020-12), as far as the document needs it. Fields keep the order in which they are written.

use serde::{Serialize, Serializer};
use serde_json::{Number, Value};

/// A schema. One that says nothing takes any value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Schema {
    /// The name of the schema that it stands for.
    #[serde(rename = "$ref", skip_serializing_if = "Option::is_none", serialize_with = "reference_path")]
    pub reference: Option<String>,
    /// What it is, in Markdown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON types it takes; none means any.
    #[serde(rename = "type", skip_serializing_if = "Vec::is_empty", serialize_with = "one_or_many")]
    pub types: Vec<&'static str>,
    /// The only value.
    #[serde(rename = "const", skip_serializing_if = "Option::is_none")]
    pub constant: Option<Value>,
    /// All values.
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// Format of a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<&'static str>,
    /// Pattern that a string contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<&'static str>,
    /// Fewest characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<usize>,
    /// Most characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// Least number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Number>,
    /// Greatest number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Number>,
    /// Items of an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<Schema>>,
    /// Fewest items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_items: Option<usize>,
    /// Most items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<usize>,
    /// Fields of an object.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "in_order")]
    pub properties: Vec<(&'static str, Schema)>,
    /// Fields that must be there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<&'static str>,
    /// Fewest fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_properties: Option<usize>,
    /// `Some(false)` where other fields than those named are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<bool>,
    /// At least one of these holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub any_of: Vec<Schema>,
    /// Exactly one of these holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<Schema>,
    /// Schemas of what is read of an event's payload, by event type. No rule for validators: a payload that its schema
    /// doesn't take is accepted all the same, with a warning.
    #[serde(
        rename = "x-payload-schemas",
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "in_order"
    )]
    pub payloads: Vec<(&'static str, SchemaPath)>,
    /// This doesn't hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<Schema>>,
}

/// The name of a schema, written as its place in the document.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaPath(pub &'static str);

impl Serialize for SchemaPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("#/components/schemas/{}", self.0))
    }
}

/// A named schema.
pub(super) fn reference(name: impl Into<String>) -> Schema {
    Schema { reference: Some(name.into()), ..Schema::default() }
}

/// A value of a JSON type.
pub(super) fn of_type(name: &'static str) -> Schema {
    Schema { types: vec![name], ..Schema::default() }
}

/// An object with these fields.
pub(super) fn object<const N: usize>(properties: [(&'static str, Schema); N]) -> Schema {
    Schema { properties: Vec::from(properties), ..of_type("object") }
}

/// An array of `items`.
pub(super) fn array(items: Schema) -> Schema {
    Schema { items: Some(Box::new(items)), ..of_type("array") }
}

/// The one text.
pub(super) fn constant(value: impl Into<Value>) -> Schema {
    Schema { constant: Some(value.into()), ..Schema::default() }
}

/// One of these texts.
pub(super) fn one_of_texts<'a>(values: impl IntoIterator<Item = &'a str>) -> Schema {
    Schema { values: values.into_iter().map(Value::from).collect(), ..of_type("string") }
}

/// An object that has these fields, whatever else it has.
pub(super) fn having<const N: usize>(required: [&'static str; N]) -> Schema {
    Schema { required: required.to_vec(), ..Schema::default() }
}

impl Schema {
    /// Says what it is.
    pub(super) fn about(self, description: &str) -> Self {
        Self { description: description.to_owned(), ..self }
    }

    /// Null is a value as well.
    pub(super) fn or_null(mut self) -> Self {
        // Whatever it is: null as well.
        if self.types.is_empty() && self.reference.is_none() && self.any_of.is_empty() {
            return self;
        }
        if self.reference.is_some() || !self.any_of.is_empty() {
            let null = of_type("null");
            let description = std::mem::take(&mut self.description);
            let any_of =
                if self.any_of.is_empty() { vec![self, null] } else { [self.any_of, vec![null]].concat() };
            return Self { any_of, description, ..Self::default() };
        }
        self.types.push("null");
        self
    }

    /// These fields must be there.
    pub(super) fn requiring<const N: usize>(self, required: [&'static str; N]) -> Self {
        Self { required: required.to_vec(), ..self }
    }

    /// All its fields are there.
    pub(super) fn complete(self) -> Self {
        Self { required: self.properties.iter().map(|(name, _)| *name).collect(), ..self }
    }

    /// Other fields than these are refused.
    pub(super) fn strict(self) -> Self {
        Self { additional_properties: Some(false), ..self }
    }

    /// As it is read of an event: other fields are ignored, and null is as good as left out. What is required stays so.
    pub(super) fn lenient(mut self) -> Self {
        let required = &self.required;
        let field = |(name, schema): (&'static str, Self)| {
            (name, if required.contains(&name) { schema } else { schema.or_null() })
        };
        self.properties = self.properties.into_iter().map(field).collect();
        Self { additional_properties: None, min_properties: None, ..self }
    }

    /// Array of so many items.
    pub(super) fn with_items(self, min: usize, max: usize) -> Self {
        Self { min_items: (min > 0).then_some(min), max_items: Some(max), ..self }
    }

    /// At least one of these holds, too.
    pub(super) fn with_any_of<const N: usize>(self, any_of: [Self; N]) -> Self {
        Self { any_of: Vec::from(any_of), ..self }
    }

    /// The schema of a field.
    pub fn property(&self, name: &str) -> Option<&Self> {
        self.properties.iter().find(|(known, _)| *known == name).map(|(_, schema)| schema)
    }
}

fn reference_path<S: Serializer>(name: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("#/components/schemas/{}", name.as_deref().unwrap_or_default()))
}

fn one_or_many<S: Serializer>(types: &[&'static str], serializer: S) -> Result<S::Ok, S::Error> {
    match types {
        [one] => serializer.serialize_str(one),
        many => serializer.collect_seq(many),
    }
}

/// Writes pairs as an object, in their order.
pub(super) fn in_order<K: Serialize, V: Serialize, S: Serializer>(
    pairs: &[(K, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_says_what_it_was_told_and_no_more() {
        let schema = object([
            ("name", of_type("string").or_null().about("Full name.")),
            ("owner", reference("Owner").or_null()),
        ]);
        let text = serde_json::to_string(&schema.complete().strict()).unwrap();
        let expected = concat!(
            r#"{"type":"object","properties":{"name":{"description":"Full name.","type":["string","null"]},"#,
            r##""owner":{"anyOf":[{"$ref":"#/components/schemas/Owner"},{"type":"null"}]}},"##,
            r#""required":["name","owner"],"additionalProperties":false}"#
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn a_lenient_schema_ignores_more_fields_and_takes_null_for_what_may_be_left_out() {
        let strict = object([("title", of_type("string")), ("notes", of_type("string"))]);
        let strict = Schema { min_properties: Some(1), ..strict.requiring(["title"]).strict() };
        let lenient = json!({
            "type": "object",
            "properties": {"title": {"type": "string"}, "notes": {"type": ["string", "null"]}},
            "required": ["title"],
        });
        assert_eq!(serde_json::to_value(strict.lenient()).unwrap(), lenient);
        // A schema that says nothing takes null as well.
        assert_eq!(Schema::default().or_null(), Schema::default());
    }

    #[test]
    fn a_schema_that_says_nothing_is_empty() {
        assert_eq!(serde_json::to_value(Schema::default()).unwrap(), json!({}));
    }
}
