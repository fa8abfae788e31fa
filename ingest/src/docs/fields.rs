//! Renders schemas as tables of fields, and types in words.

use super::markdown::{inline, schema_link};
use crate::openapi::document::Document;
use crate::openapi::schema::Schema;
use crate::openapi::{BLANK, HAS_DIGIT, NOT_BLANK};
use maud::{Markup, html};
use serde_json::Value;

/// Renders a schema: a table of its fields, or its type if it has none.
pub(super) fn schema(document: &Document, schema: &Schema) -> Markup {
    html! {
        @if schema.discriminator.is_some() {
            ul.payloads { @for choice in &schema.one_of { li { (kind(choice)) } } }
        } @else if !schema.one_of.is_empty() {
            @for (i, choice) in schema.one_of.iter().enumerate() {
                @if i > 0 { p.or { "or" } }
                (fields(document, choice))
            }
        } @else if schema.properties.is_empty() {
            p { (kind(schema)) }
        } @else {
            (fields(document, schema))
        }
    }
}

fn fields(document: &Document, schema: &Schema) -> Markup {
    html! {
        table.fields {
            (head(["field", "type", "description"]))
            tbody { (rows(document, schema, "")) }
        }
        @if schema.additional_properties == Some(false) || schema.min_properties.is_some() {
            p.rule {
                @if schema.min_properties == Some(1) { "At least one of these fields. " }
                @if schema.additional_properties == Some(false) { "No other fields." }
            }
        }
    }
}

/// A row for each field. The rows of a nested object without a schema name follow its own row; `within` is the path to them.
fn rows(document: &Document, schema: &Schema, within: &str) -> Markup {
    html! {
        @for (name, field) in &schema.properties {
            @let path = format!("{within}{name}");
            tr {
                th scope="row" {
                    code { (path) }
                    @if schema.required.contains(name) { " " span.required { "required" } }
                }
                td { (kind(field)) }
                td { (inline(document, &field.description)) (payloads(field)) }
            }
            (rows(document, field, &format!("{path}.")))
        }
    }
}

/// The payload schema of each event type.
fn payloads(field: &Schema) -> Markup {
    html! {
        @if !field.payloads.is_empty() {
            ul.payloads {
                @for (kind, schema) in &field.payloads {
                    li { code { (kind) } ": " (schema_link(schema.0)) }
                }
            }
        }
    }
}

/// The head of a table.
pub(super) fn head(titles: [&str; 3]) -> Markup {
    html! { thead { tr { @for title in titles { th scope="col" { (title) } } } } }
}

/// A type with its rules, in words.
pub(super) fn kind(schema: &Schema) -> Markup {
    html! {
        @if let Some(name) = &schema.reference {
            (schema_link(name))
        } @else if let Some(value) = &schema.constant {
            (literal(value))
        } @else if !schema.values.is_empty() {
            @for (i, value) in schema.values.iter().enumerate() { @if i > 0 { ", " } (literal(value)) }
        } @else if !schema.any_of.is_empty() && schema.properties.is_empty() {
            @for (i, choice) in schema.any_of.iter().enumerate() { @if i > 0 { " or " } (kind(choice)) }
        } @else if let Some(items) = &schema.items {
            "array of " (kind(items))
        } @else if schema.pattern == Some(BLANK) {
            "blank text"
        } @else {
            (schema.types.first().copied().unwrap_or("any"))
        }
        @let rules = rules(schema);
        @if !rules.is_empty() { ", " (rules.join(", ")) }
        @if schema.types.len() > 1 { " or null" }
    }
}

fn literal(value: &Value) -> Markup {
    html! { code { @if let Some(text) = value.as_str() { (text) } @else { (value.to_string()) } } }
}

/// The rules of a schema besides its JSON type, in words.
fn rules(schema: &Schema) -> Vec<String> {
    let mut rules = Vec::new();
    rules.extend(schema.format.map(str::to_owned));
    rules.extend(schema.pattern.and_then(|pattern| match pattern {
        // Shown in place of the type.
        BLANK => None,
        NOT_BLANK => Some("not blank".to_owned()),
        HAS_DIGIT => Some("with a digit".to_owned()),
        // The format of a code says more than its pattern.
        _ if schema.format.is_some() => None,
        other => Some(format!("as {other}")),
    }));
    rules.extend(range(schema.min_length, schema.max_length, "characters"));
    rules.extend(range(schema.min_items, schema.max_items, "items"));
    rules.extend(range(schema.minimum.as_ref(), schema.maximum.as_ref(), ""));
    rules
}

fn range<N: ToString>(min: Option<N>, max: Option<N>, what: &str) -> Option<String> {
    let range = match (min, max) {
        (Some(min), Some(max)) => format!("{} to {} {what}", min.to_string(), max.to_string()),
        (None, Some(max)) if max.to_string() == "1" => format!("at most 1 {}", what.trim_end_matches('s')),
        (None, Some(max)) => format!("at most {} {what}", max.to_string()),
        (Some(min), None) => format!("at least {} {what}", min.to_string()),
        (None, None) => return None,
    };
    Some(range.trim().to_owned())
}
