//! The document's Markdown as HTML.

use crate::openapi::document::Document;
use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{CowStr, Event, Options, Parser, html::push_html};

/// Renders a text as HTML. The name of a schema that is written as code becomes a link to that schema.
pub(super) fn markdown(document: &Document, text: &str) -> Markup {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).map(|event| match event {
        Event::Code(code) if document.schema(&code).is_some() => link(&code),
        // No text of the document has HTML, so everything that looks like HTML is shown as text.
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
        Event::Start(_)
        | Event::End(_)
        | Event::Text(_)
        | Event::Code(_)
        | Event::InlineMath(_)
        | Event::DisplayMath(_)
        | Event::FootnoteReference(_)
        | Event::SoftBreak
        | Event::HardBreak
        | Event::Rule
        | Event::TaskListMarker(_) => event,
    });
    let mut html = String::new();
    push_html(&mut html, events);
    PreEscaped(html)
}

/// [`markdown`] of one paragraph, without the paragraph.
pub(super) fn inline(document: &Document, text: &str) -> Markup {
    let PreEscaped(html) = markdown(document, text);
    let html = html.trim();
    let inner = html.strip_prefix("<p>").and_then(|html| html.strip_suffix("</p>"));
    PreEscaped(inner.filter(|inner| !inner.contains("<p>")).unwrap_or(html).to_owned())
}

fn link(name: &CowStr<'_>) -> Event<'static> {
    let PreEscaped(link) = schema_link(name);
    Event::InlineHtml(link.into())
}

/// A link to a named schema.
pub(super) fn schema_link(name: &str) -> Markup {
    html! { a href={ "#schema-" (name) } { code { (name) } } }
}
