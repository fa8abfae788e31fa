//! The bodies of the records routes, read strictly (specification: Records routes; D18, D21-D22).
//!
//! A body is a type that says all about what it may hold, and [`parse`] reads every one of them the same way. It
//! names every fault with its place, such as `travelers[2].type`, not the first one only:
//!
//! - a field that the route doesn't know, at any depth, and one that is given more than once;
//! - a null, and a wrong JSON type: 1 for true, `"2"` for 2. A whole number has no fraction and no exponent;
//! - a date that doesn't exist, an end before the start, an unassigned code, half a budget (D22);
//! - a text that is too long or blank (D6, D21a), and a phone without a digit. What isn't known is left out, it is not
//!   sent empty. Three texts may be blank: an empty `guestNationality` clears it, `reason` is judged by the rule
//!   that needs one, and the marketing block comes from addresses where `utm_term=` is no mistake;
//! - `travelDates`, `party` and `budget` that state nothing. One of the two dates may stand alone.
//!
//! Only the items of an itinerary keep whatever they bring (D21b).
//!
//! An object without any field is a body as well: a PATCH with it changes nothing. What a body needs beyond its form
//! (an identity, a reason, a stage that can be set) is a rule and not judged here.

mod brief;
mod canonical;
mod client;
mod fault;
mod itinerary;
mod lead;
mod leaf;
mod list;
mod repeated;
mod sent;
mod text;
mod tree;
mod trip;

pub use canonical::canonical;
pub use client::{AGE_MAX, Age, ClientBody, TRAVELERS_MAX, Traveler, TravelerType};
pub use itinerary::Itinerary;
pub use lead::{Attribution, Contact, LeadBody, LeadPatch};
pub use leaf::{Nationality, Whole};
pub use list::AtMost;
pub use sent::Sent;
pub use text::{Line, Prose, Verbatim};
pub use trip::TripPatch;

// What other strict bodies are read with.
pub(crate) use fault::{fault, one_of, other_kind};
pub(crate) use leaf::{Currency, from_string};

use crate::event::{Faults, check_json};
use deserr::Deserr;
use tree::Node;

/// A body of a records route.
pub trait RecordBody: Deserr<Faults> {
    /// The itinerary that came along; `None` also for a route that takes none.
    fn itinerary_mut(&mut self) -> Option<&mut Itinerary> {
        None
    }
}

/// Why a body is not taken: always 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// `invalid_request`: these places are wrong.
    #[error("{0}")]
    Invalid(Faults),
    /// `invalid_itinerary`: nothing is wrong but the itinerary, and these are its `errors`.
    #[error("the itinerary is not valid")]
    InvalidItinerary(Vec<String>),
}

impl From<Faults> for Refused {
    fn from(faults: Faults) -> Self {
        Self::Invalid(faults)
    }
}

/// Reads the body of a records route.
pub fn parse<T: RecordBody>(body: &[u8]) -> Result<T, Refused> {
    check_json(body)?;
    let tree = Node::read(body).map_err(|_| Faults::one("", "is not valid JSON"))?;
    let mut faults = repeated::fields(&tree);
    match deserr::deserialize::<T, Node, Faults>(tree) {
        Ok(record) if faults.is_empty() => with_itinerary(record, body),
        Ok(_) => Err(faults.into()),
        Err(found) => {
            faults.0.extend(found.0);
            Err(faults.into())
        }
    }
}

fn with_itinerary<T: RecordBody>(mut record: T, body: &[u8]) -> Result<T, Refused> {
    if let Some(itinerary) = record.itinerary_mut() {
        *itinerary = Itinerary::as_sent(body)?;
    }
    Ok(record)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
