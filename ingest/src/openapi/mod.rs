//! The description of the API, as an OpenAPI 3.1 document.
//!
//! It is built from what the code itself goes by: the table of routes, the table of refusals, the limits that
//! bodies are read with, the lists of event types, stages and scopes. What can't be shared stands in an exhaustive
//! `match`, so that a new variant doesn't compile undescribed. Tests hold the rest against the readers of bodies, the
//! views of records and the running programs.

mod answers;
mod curl;
mod delivery;
pub mod document;
mod examples;
mod headers;
mod operations;
mod prose;
mod refusals;
pub mod schema;
mod schemas;
mod security;
mod texts;
mod webhooks;
mod words;

#[cfg(test)]
mod tests;

pub use schemas::RESERVED;
pub use texts::{BLANK, HAS_DIGIT, NOT_BLANK};

use document::{Components, Document, Info, Server, Tag};

/// Makes the document.
pub fn document() -> Document {
    Document {
        openapi: "3.1.0",
        info: info(),
        servers: [Server { url: "/", description: "Where this description is served." }],
        tags: words::TAGS.map(|(name, description)| Tag { name, description }).into(),
        paths: operations::paths(),
        webhooks: webhooks::all(),
        components: Components {
            schemas: schemas::all()
                .into_iter()
                .map(|(name, schema)| (name.to_owned(), schema))
                .chain(answers::schemas())
                .collect(),
            security_schemes: security::schemes(),
        },
    }
}

fn info() -> Info {
    let chapters = prose::chapters();
    let text: Vec<String> =
        chapters.iter().map(|chapter| format!("## {}\n\n{}", chapter.title, chapter.text.trim())).collect();
    Info {
        title: "Connect",
        version: "1.0",
        summary: "The integration service of a travel-agency CRM: events in, records in and out, webhooks \
            out.",
        description: text.join("\n\n"),
        chapters,
    }
}
