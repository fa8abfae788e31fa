//! An endpoint, or a webhook, on the page.

use super::fields::{head, kind, schema};
use super::markdown::{inline, markdown, schema_link};
use crate::openapi::document::{Content, Document, Operation, Parameter, Response};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// Status and code of a refusal.
pub(super) type Code<'d> = (&'d str, &'d str);

/// An endpoint. `everywhere` are the refusals that all signed endpoints share.
pub(super) fn endpoint(
    document: &Document,
    method: &str,
    path: &str,
    operation: &Operation,
    everywhere: &BTreeSet<Code<'_>>,
) -> Markup {
    html! {
        section.operation id=(operation.operation_id) {
            h3 { (operation.summary) }
            p.call { (verb(method)) " " code.path { (path) } }
            (credentials(operation))
            (markdown(document, &operation.description))
            (parameters(document, &operation.parameters))
            (body(document, operation))
            h4 { "Responses" }
            (responses(document, operation, everywhere))
            @for sample in &operation.samples {
                details { summary { "Call it with " (sample.label) } (code_block("Sample", &sample.source)) }
            }
            @for (_, response) in operation.responses.iter().filter(|(status, _)| status.starts_with('2')) {
                (examples("Example of the response", response.content.as_ref()))
            }
        }
    }
}

/// Code that may be wider than the page: with the keyboard it is scrolled once it has the focus.
fn code_block(label: &str, code: &str) -> Markup {
    html! { pre role="group" aria-label=(label) tabindex="0" { code { (code) } } }
}

/// A method, in its color.
pub(super) fn verb(method: &str) -> Markup {
    html! { span class={ "method " (method) } { (method.to_uppercase()) } }
}

pub(super) fn webhook(document: &Document, kind: &str, operation: &Operation) -> Markup {
    html! {
        section.operation id=(operation.operation_id) {
            h3 { code { (kind) } }
            (markdown(document, &operation.description))
            (body(document, operation))
        }
    }
}

/// The scope and the scheme; nothing where no credentials are needed.
fn credentials(operation: &Operation) -> Markup {
    let schemes = operation.security.first();
    let scope = schemes.and_then(|schemes| schemes.values().flatten().next());
    let version = |name: &'static str| name.strip_prefix("ConnectSignature");
    let version = schemes.and_then(|schemes| schemes.keys().find_map(|name| version(name)));
    html! {
        p.needs {
            @if let (Some(scope), Some(version)) = (scope, version) {
                "Scope " code { (scope) } ", signed with " a href="#signing" { (version.to_lowercase()) }
            } @else {
                "No credentials"
            }
        }
    }
}

fn parameters(document: &Document, parameters: &[Parameter]) -> Markup {
    html! {
        @if !parameters.is_empty() {
            h4 { "Parameters" }
            table.fields {
                (head(["parameter", "type", "description"]))
                tbody {
                    @for parameter in parameters {
                        tr {
                            th scope="row" {
                                code { (parameter.name) } " " span.place { (parameter.place) }
                                @if parameter.required { " " span.required { "required" } }
                            }
                            td { (kind(&parameter.schema)) }
                            td { (inline(document, parameter.description)) }
                        }
                    }
                }
            }
        }
    }
}

fn body(document: &Document, operation: &Operation) -> Markup {
    let content = operation.request_body.as_ref().map(|body| &body.content);
    let media = content.and_then(|content| content.types.first()).map(|(_, media)| media);
    let name = media.and_then(|media| media.schema.reference.as_deref());
    html! {
        @if let Some((name, named)) = name.and_then(|name| Some((name, document.schema(name)?))) {
            h4 { "Body: " (schema_link(name)) }
            // A webhook's description is shown above already.
            @if named.description != operation.description {
                p { (inline(document, &named.description)) }
            }
            (schema(document, named))
            (examples("Example of the body", content))
        }
    }
}

/// The examples of a body. Only the first has no name: others show special cases, such as an event of a type.
fn examples(title: &str, content: Option<&Content>) -> Markup {
    html! {
        @for (_, media) in content.into_iter().flat_map(|content| &content.types) {
            @for (number, (_, example)) in media.examples.iter().enumerate() {
                details {
                    summary { (title) @if number > 0 { ": " code { (example.summary) } } }
                    (code_block("Example", example.value.get()))
                }
            }
        }
    }
}

fn responses(document: &Document, operation: &Operation, everywhere: &BTreeSet<Code<'_>>) -> Markup {
    let (shared, own): (Vec<_>, Vec<_>) = codes(operation).partition(|(code, _)| everywhere.contains(code));
    html! {
        table.responses {
            (head(["status", "code", "meaning"]))
            tbody {
                @for (status, response) in &operation.responses {
                    @if !is_refusal(status) {
                        tr {
                            (status_cell(status))
                            td { (shown(response)) }
                            td { (inline(document, &response.description)) (headers(document, response)) }
                        }
                    }
                }
                @for ((status, code), meaning) in &own {
                    tr { (status_cell(status)) td { code { (code) } } td { (inline(document, meaning)) } }
                }
                @if !shared.is_empty() {
                    tr {
                        th scope="row" { a href="#errors" { "others" } }
                        td colspan="2" {
                            "As for every endpoint: "
                            @for (i, ((status, code), _)) in shared.iter().enumerate() {
                                @if i > 0 { ", " }
                                (status) " " code { (code) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn status_cell(status: &str) -> Markup {
    html! { th scope="row" { span class={ "status s" (status[..1]) } { (status) } } }
}

/// The content of a successful response.
fn shown(response: &Response) -> Markup {
    let media = response.content.iter().flat_map(|content| &content.types).next();
    html! {
        @if let Some((media_type, media)) = media {
            @if let Some(data) = media.schema.property("data") {
                code { "data" } ": " (kind(data))
            } @else if media.schema.reference.is_some() {
                (kind(&media.schema))
            } @else {
                code { (media_type) }
            }
        }
    }
}

fn headers(document: &Document, response: &Response) -> Markup {
    html! {
        @for (name, header) in &response.headers {
            " " span.header { code { (name) } ": " (inline(document, header.description)) }
        }
    }
}

fn is_refusal(status: &str) -> bool {
    status.starts_with(['4', '5'])
}

/// An operation's refusals, each with its meaning.
pub(super) fn codes(operation: &Operation) -> impl Iterator<Item = (Code<'_>, &'static str)> {
    let refusals = operation.responses.iter().filter(|(status, _)| is_refusal(status));
    refusals.flat_map(|(status, response)| {
        let media = response.content.iter().flat_map(|content| &content.types);
        let examples = media.flat_map(|(_, media)| &media.examples);
        examples.map(move |(code, example)| ((status.as_str(), code.as_str()), example.summary))
    })
}
