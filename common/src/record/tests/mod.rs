//! Tests of every rule of the bodies, each as a table.

mod brief;
mod client;
mod itinerary;
mod lead;
mod strict;

use super::{BodyError, RecordBody, parse};
use std::fmt::Debug;

/// Reads a body that is valid.
fn valid<T: RecordBody>(body: &str) -> T {
    parse(body.as_bytes()).unwrap_or_else(|refused| panic!("{body}: {refused:?}"))
}

/// The faults of a body, each as `place: what`.
fn faults<T: RecordBody + Debug>(body: &str) -> Vec<String> {
    match parse::<T>(body.as_bytes()) {
        Err(BodyError::Invalid(faults)) => {
            faults.0.into_iter().map(|fault| format!("{}: {}", fault.place, fault.what)).collect()
        }
        other => panic!("{body}: {other:?}"),
    }
}

/// The errors of the itinerary of a body that is otherwise valid.
fn itinerary_errors<T: RecordBody + Debug>(body: &str) -> Vec<String> {
    match parse::<T>(body.as_bytes()) {
        Err(BodyError::InvalidItinerary(errors)) => errors,
        other => panic!("{body}: {other:?}"),
    }
}

/// Checks that a body has exactly one fault for each row.
fn refuses<T: RecordBody + Debug>(rows: &[(&str, &str)]) {
    for (body, fault) in rows {
        assert_eq!(faults::<T>(body), [*fault], "{body}");
    }
}
