//! Compares the document with the code. The end-to-end tests compare its bodies with their readers.

mod descriptions;
mod event_types;
mod references;
mod views;

use super::document::Document;
use super::schema::Schema;

/// A named schema of the document, which must be there.
#[track_caller]
fn named<'d>(document: &'d Document, name: &str) -> &'d Schema {
    document.schema(name).unwrap_or_else(|| panic!("no schema {name}"))
}
