//! The page: navigation beside, chapters, endpoints, webhooks and schemas one below the other. Plain HTML and one
//! style sheet, so that it works without scripts, prints, and can be read aloud.

use super::endpoint::{Code, codes, endpoint, verb, webhook};
use super::fields::schema;
use super::markdown::{inline, markdown};
use crate::openapi::document::{Document, Operation, PathItem};
use crate::openapi::schema::Schema;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::BTreeSet;

/// The style sheet, as it stands in the page. The policy of the page names its digest.
pub(super) const STYLE: &str = include_str!("style.css");

/// The page of a document.
pub(super) fn page(document: &Document) -> String {
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
                (navigation(document))
                main #content {
                    header { h1 { (info.title) " API " small { (info.version) } } p.lead { (info.summary) } }
                    @for chapter in &info.chapters {
                        section id=(chapter.id) { h2 { (chapter.title) } (markdown(document, &chapter.text)) }
                    }
                    (endpoints(document))
                    (webhooks(document))
                    (schemas(document))
                }
            }
        }
    };
    page.into_string()
}

/// All operations: path, or type of webhook; method; operation.
fn all_operations<'d>(
    items: &'d [(&'static str, PathItem)],
) -> impl Iterator<Item = (&'static str, &'static str, &'d Operation)> {
    let of = |(path, item): &'d (&'static str, PathItem)| {
        item.operations.iter().map(|(method, operation)| (*path, *method, operation))
    };
    items.iter().flat_map(of)
}

/// Those of a group.
fn operations<'d>(
    items: &'d [(&'static str, PathItem)],
    tag: &str,
) -> impl Iterator<Item = (&'static str, &'static str, &'d Operation)> {
    all_operations(items).filter(move |(.., operation)| operation.tags == [tag])
}

/// Schemas but those of refusals, which the chapter on errors tells of.
fn shown_schemas(document: &Document) -> impl Iterator<Item = &(String, Schema)> {
    document.components.schemas.iter().filter(|(_, schema)| schema.property("statusCode").is_none())
}

fn navigation(document: &Document) -> Markup {
    html! {
        nav aria-label="Contents" {
            p.title { a href="#content" { (document.info.title) " API" } }
            ul {
                @for chapter in &document.info.chapters {
                    li { a href={ "#" (chapter.id) } { (chapter.title) } }
                }
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

/// The refusals that every endpoint with credentials gives, but for 400, of which each has its own to tell.
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
