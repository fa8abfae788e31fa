//! The description of the API, as an OpenAPI 3.1 document.
//!
//! It is built from the code's own definitions: the table of routes, the table of refusals, the limits that
//! bodies are read with, the lists of event types, stages and scopes. Everything else is in exhaustive `match`
//! expressions, so that a new variant does not compile without a description. Tests compare the rest with the readers of
//! bodies, the views of records and the running programs.
//!
//! The model in `document` and `schema` is own code instead of `utoipa` or `schemars`. These derive schemas from the types that
//! serde reads, but bodies and payloads are read field by field, more leniently than any type says. What a field takes, the texts
//! and the examples would have to be written here all the same.

mod curl;
mod delivery;
pub mod document;
mod endpoint_texts;
mod error_responses;
mod examples;
mod headers;
mod operations;
mod prose;
mod refusals;
pub mod schema;
mod schemas;
mod security;
mod value_schemas;
mod webhooks;

#[cfg(test)]
mod tests;

pub use schemas::RESERVED;
pub use value_schemas::{BLANK, HAS_DIGIT, NOT_BLANK};

use document::{Components, Contact, Document, Info, Server, Tag};

/// Builds the document, with all references resolved by name.
pub fn document() -> Document {
    Document {
        openapi: "3.1.0",
        info: info(),
        servers: [Server { url: "/", description: "Where this description is served." }],
        security: security::global(),
        tags: endpoint_texts::TAGS.map(|(name, description)| Tag { name, description }).into(),
        paths: operations::paths(),
        webhooks: webhooks::all(),
        components: Components {
            schemas: schemas::all()
                .into_iter()
                .map(|(name, schema)| (name.to_owned(), schema))
                .chain(error_responses::schemas())
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
        summary: "The integration service of a travel-agency CRM: it receives events, serves records and sends \
            webhooks.",
        contact: Contact { name: "The operator of this installation of Connect", url: None },
        description: text.join("\n\n"),
        chapters,
    }
}
