//! JSON Schema (2020-12), as far as the document needs it. Fields keep the order in which they are written.

use serde::{Serialize, Serializer};
use serde_json::{Number, Value};

/// A schema. An empty one accepts any value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Schema {
    /// The name of the schema that it stands for.
    #[serde(rename = "$ref", skip_serializing_if = "Option::is_none", serialize_with = "reference_path")]
    pub reference: Option<String>,
    /// What it is, in Markdown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The JSON types that it accepts; none means any.
    #[serde(rename = "type", skip_serializing_if = "Vec::is_empty", serialize_with = "one_or_many")]
    pub types: Vec<&'static str>,
    /// The only allowed value.
    #[serde(rename = "const", skip_serializing_if = "Option::is_none")]
    pub constant: Option<Value>,
    /// All allowed values.
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// Format of a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<&'static str>,
    /// Pattern that a string contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<&'static str>,
    /// The least number of characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<usize>,
    /// The greatest number of characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// The least allowed number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Number>,
    /// The greatest allowed number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Number>,
    /// Items of an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<Schema>>,
    /// The least number of items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_items: Option<usize>,
    /// The greatest number of items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<usize>,
    /// Fields of an object.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "in_order")]
    pub properties: Vec<(&'static str, Schema)>,
    /// Fields that must be there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<&'static str>,
    /// The least number of fields.
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
    /// All of these hold, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub all_of: Vec<Schema>,
    /// Which schema of `oneOf` applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discriminator: Option<Discriminator>,
    /// Schemas of the payload fields that are read, by event type. Not for validation: a payload that does not match its
    /// schema is accepted, with a warning.
    #[serde(
        rename = "x-payload-schemas",
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "in_order"
    )]
    pub payloads: Vec<(&'static str, SchemaPath)>,
    /// A schema that must not match.
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

/// The field whose value says which schema of `oneOf` applies, for generators of code.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Discriminator {
    /// The name of the field.
    pub property_name: &'static str,
    /// The schema of each value.
    #[serde(serialize_with = "in_order")]
    pub mapping: Vec<(&'static str, SchemaPath)>,
}

/// One of these named schemas, by the value of a field: each value with its schema.
pub(super) fn one_by_field(
    property_name: &'static str,
    schemas: impl Iterator<Item = (&'static str, &'static str)>,
) -> Schema {
    let mapping: Vec<_> = schemas.map(|(value, name)| (value, SchemaPath(name))).collect();
    Schema {
        one_of: mapping.iter().map(|(_, path)| reference(path.0)).collect(),
        discriminator: Some(Discriminator { property_name, mapping }),
        ..Schema::default()
    }
}

/// A reference to a named schema.
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

/// A schema with one allowed value.
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
        // An empty schema accepts null already.
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

    /// The schema as an event is read: other fields are ignored, and null counts as absent. Required fields stay required.
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

    /// At least one of these holds, too. Written as a part of `allOf`: generators of clients take `anyOf` beside fields for a
    /// union of its parts, and leave out the fields.
    pub(super) fn with_any_of<const N: usize>(self, any_of: [Self; N]) -> Self {
        Self { all_of: vec![Self { any_of: Vec::from(any_of), ..Self::default() }], ..self }
    }

    /// The same schema, whose field `name` has this schema.
    pub(super) fn with_field(mut self, name: &'static str, schema: Self) -> Self {
        match self.properties.iter_mut().find(|(known, _)| *known == name) {
            Some((_, field)) => *field = schema,
            None => self.properties.push((name, schema)),
        }
        self
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
        // An empty schema accepts null as well.
        assert_eq!(Schema::default().or_null(), Schema::default());
    }

    #[test]
    fn a_schema_that_says_nothing_is_empty() {
        assert_eq!(serde_json::to_value(Schema::default()).unwrap(), json!({}));
    }
}
