//! The part of the page that signs and sends requests. Only with the setting `CONNECT_DOCS_TRY_IT`.

use crate::openapi::document::{Document, Operation, Parameter};
use maud::{Markup, PreEscaped, html};

/// The script, which is part of the page. The content security policy of the page has its digest.
pub(super) const SCRIPT: &str = include_str!("try_it.js");

/// The form. It has no `form` element, so that no browser sends or stores what was pasted.
pub(super) fn section(document: &Document) -> Markup {
    html! {
        section #try-it {
            h2 { "Try it" }
            p {
                "Requests are signed here in the browser and sent to this server. What they change is changed: use a key that was made for tests. "
                "The secret is neither stored nor sent; it is forgotten when you leave the page. In events, " code { "tenant" } " must be the slug of your agency."
            }
            noscript { p.needs { "This needs scripts." } }
            div.try {
                (text("key", "Key", "text", "off"))
                (text("tenant", "Slug of the agency", "text", "off"))
                (text("secret", "Secret of the key", "password", "new-password"))
                label for="try-operation" { "Request" }
                select #try-operation { @for (method, path, operation) in signed(document) { (option(method, path, operation)) } }
                (text("target", "Path and query", "text", "off"))
                (text("idempotency-key", "Idempotency-Key", "text", "off"))
                label for="try-body" { "Body" }
                textarea #try-body rows="14" spellcheck="false" autocomplete="off" {}
                button #try-send type="button" { "Sign and send" }
            }
            h3 #try-result-title { "Response" }
            pre #try-result role="status" aria-labelledby="try-result-title" tabindex="0" {}
        }
    }
}

/// The script at the end of the page.
pub(super) fn script() -> Markup {
    html! { script { (PreEscaped(SCRIPT)) } }
}

fn text(name: &str, label: &str, kind: &str, autocomplete: &str) -> Markup {
    let id = format!("try-{name}");
    html! {
        label for=(id) { (label) }
        input id=(id) type=(kind) autocomplete=(autocomplete) spellcheck="false";
    }
}

/// The operations that need a signature, with their method and path.
fn signed(document: &Document) -> impl Iterator<Item = (&str, &'static str, &Operation)> {
    let operations = document.paths.iter().flat_map(|(path, item)| {
        item.operations.iter().map(|(method, operation)| (method.as_str(), *path, operation))
    });
    operations.filter(|(.., operation)| !operation.security.is_empty())
}

fn option(method: &str, path: &str, operation: &Operation) -> Markup {
    let needs_v1 = operation.security.iter().any(|schemes| schemes.contains_key("ConnectSignatureV1"));
    let key = operation.parameters.iter().find(|parameter| parameter.name == "Idempotency-Key");
    html! {
        option
            data-method=(method.to_uppercase()) data-target=(target(path, operation)) data-scheme=(if needs_v1 { "v1" } else { "v2" })
            data-body=[body(operation)] data-key=[key.and_then(|parameter| parameter.example)]
        { (method.to_uppercase()) " " (path) ": " (operation.summary) }
    }
}

/// The path with the example of the first parameter of its query.
fn target(path: &str, operation: &Operation) -> String {
    let query = operation.parameters.iter().find(|parameter| parameter.place == "query");
    let pair =
        |Parameter { name, example, .. }: &Parameter| format!("?{name}={}", example.unwrap_or_default());
    format!("{path}{}", query.map(pair).unwrap_or_default())
}

/// The first example of the body.
fn body(operation: &Operation) -> Option<&str> {
    let content = &operation.request_body.as_ref()?.content;
    let (_, media) = content.types.first()?;
    media.examples.first().map(|(_, example)| example.value.get())
}
