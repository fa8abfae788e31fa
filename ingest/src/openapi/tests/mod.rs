//! The document against the code. What bodies it takes is compared with their readers by the end-to-end tests.

mod references;
mod said;
mod views;

use super::document::Document;
use super::schema::Schema;

/// A named schema of the document, which must be there.
#[track_caller]
fn named<'d>(document: &'d Document, name: &str) -> &'d Schema {
    document.schema(name).unwrap_or_else(|| panic!("no schema {name}"))
}
