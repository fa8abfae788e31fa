//! Finds fields that are repeated in one object, at any depth. They are refused, because it is ambiguous which value counts.

use super::fault::{FAULTS_MAX, place};
use super::tree::{Fields, Node};
use crate::event::Faults;
use deserr::ValuePointerRef;
use std::collections::HashSet;

/// A fault for each repetition of a field, at most [`FAULTS_MAX`].
pub(super) fn find_repeated_fields(tree: &Node) -> Faults {
    let mut faults = Faults::default();
    collect_repeated(tree, ValuePointerRef::Origin, &mut faults);
    faults
}

fn collect_repeated(node: &Node, at: ValuePointerRef<'_>, faults: &mut Faults) {
    match node {
        Node::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                collect_repeated(item, at.push_index(i), faults);
            }
        }
        Node::Object(Fields(fields)) => {
            let mut seen = HashSet::with_capacity(fields.len());
            for (name, value) in fields {
                let here = at.push_key(name);
                if !seen.insert(name) && faults.0.len() < FAULTS_MAX {
                    faults.push(place(here), "is given more than once");
                }
                collect_repeated(value, here, faults);
            }
        }
        Node::Null
        | Node::Boolean(_)
        | Node::Whole(_)
        | Node::Negative(_)
        | Node::Float(_)
        | Node::Text(_) => {}
    }
}
