//! The page: navigation, chapters, endpoints, webhooks and schemas. Plain HTML with one style sheet, so that it works
//! without scripts, in print, and with a screen reader.

use super::endpoint::{Code, codes, endpoint, verb, webhook};
use super::fields::schema;
use super::markdown::{inline, markdown};
use super::try_it;
use crate::openapi::document::{Document, Operation, PathItem};
use crate::openapi::schema::Schema;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::BTreeSet;

/// The style sheet, which is part of the page. The content security policy of the page has its digest.
pub(super) const STYLE: &str = include_str!("style.css");

/// The page of a document, with a form for requests if `tries` is true.
pub(super) fn page(document: &Document, tries: bool) -> String {
    let info = &document.info;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (info.title) " API " (info.version) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                (navigation(document, tries))
                main #content {
                    header { h1 { (info.title) " API " small { (info.version) } } p.lead { (info.summary) } (console(document)) }
                    @for chapter in &info.chapters {
                        section id=(chapter.id) { h2 { (chapter.title) } (markdown(document, &chapter.text)) }
                    }
                    @if tries { (try_it::section(document)) }
                    (endpoints(document))
                    (webhooks(document))
                    (schemas(document))
                }
                @if tries { (try_it::script()) }
            }
        }
    };
    page.into_string()
}

/// A link to the settings area, where keys and webhooks are managed.
fn console(document: &Document) -> Markup {
    html! {
        @if let Some(url) = &document.info.contact.url {
            p { a href=(url) { "Settings area" } ": API keys, webhooks and their deliveries" }
        }
    }
}

/// All operations, each with its path (or the event type of a webhook) and its method.
fn all_operations<'d>(
    items: &'d [(&'static str, PathItem)],
) -> impl Iterator<Item = (&'static str, &'d str, &'d Operation)> {
    let of = |(path, item): &'d (&'static str, PathItem)| {
        item.operations.iter().map(|(method, operation)| (*path, method.as_str(), operation))
    };
    items.iter().flat_map(of)
}

/// The operations of a group.
fn operations<'d>(
    items: &'d [(&'static str, PathItem)],
    tag: &str,
) -> impl Iterator<Item = (&'static str, &'d str, &'d Operation)> {
    all_operations(items).filter(move |(.., operation)| operation.tags == [tag])
}

/// The schemas, without those of refusals, which the chapter on errors describes.
fn shown_schemas(document: &Document) -> impl Iterator<Item = &(String, Schema)> {
    document.components.schemas.iter().filter(|(_, schema)| schema.property("statusCode").is_none())
}

fn navigation(document: &Document, tries: bool) -> Markup {
    html! {
        nav aria-label="Contents" {
            p.title { a href="#content" { (document.info.title) " API" } }
            ul {
                @for chapter in &document.info.chapters {
                    li { a href={ "#" (chapter.id) } { (chapter.title) } }
                }
                @if tries { li { a href="#try-it" { "Try it" } } }
            }
            @for tag in &document.tags {
                p { (tag.name) }
                ul {
                    @for (_, method, operation) in operations(&document.paths, tag.name) {
                        (entry(operation, &html! { (verb(method)) " " (operation.summary) }))
                    }
                    @for (kind, _, operation) in operations(&document.webhooks, tag.name) {
                        (entry(operation, &html! { (kind) }))
                    }
                }
            }
            p { "Schemas" }
            ul {
                @for (name, _) in shown_schemas(document) {
                    li { a href={ "#schema-" (name) } { (name) } }
                }
            }
        }
    }
}

fn entry(operation: &Operation, text: &Markup) -> Markup {
    html! { li { a href={ "#" (operation.operation_id) } { (text) } } }
}

fn endpoints(document: &Document) -> Markup {
    let everywhere = shared_refusals(document);
    html! {
        @for tag in document.tags.iter().filter(|tag| operations(&document.paths, tag.name).next().is_some()) {
            section.group {
                h2 { (tag.name) }
                p { (tag.description) }
                @for (path, method, operation) in operations(&document.paths, tag.name) {
                    (endpoint(document, method, path, operation, &everywhere))
                }
            }
        }
    }
}

/// The refusals that all endpoints with credentials share, except 400, whose meaning differs.
fn shared_refusals(document: &Document) -> BTreeSet<Code<'_>> {
    let signed = all_operations(&document.paths).filter(|(.., operation)| !operation.security.is_empty());
    let sets = signed.map(|(.., operation)| {
        let refusals = codes(operation).map(|(code, _)| code);
        refusals.filter(|(status, _)| *status != "400").collect::<BTreeSet<_>>()
    });
    sets.reduce(|shared, set| &shared & &set).unwrap_or_default()
}

fn webhooks(document: &Document) -> Markup {
    html! {
        section.group {
            h2 { "Webhooks" }
            p {
                "Sent to your receiver; see " a href="#webhooks" { "Receiving webhooks" }
                " for headers, signature and retries."
            }
            @for (kind, _, operation) in all_operations(&document.webhooks) {
                (webhook(document, kind, operation))
            }
        }
    }
}

fn schemas(document: &Document) -> Markup {
    html! {
        section.group {
            h2 { "Schemas" }
            @for (name, named) in shown_schemas(document) {
                section.schema id={ "schema-" (name) } {
                    h3 { (name) }
                    p { (inline(document, &named.description)) }
                    (schema(document, named))
                }
            }
        }
    }
}
