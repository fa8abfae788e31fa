//! The bodies of the records routes, parsed strictly (specification: Records routes; D18, D21-D22).
//!
//! Each body is a type that declares its fields and their limits, and [`parse`] parses all of them in the same way. It
//! reports all faults, each with its place, such as `travelers[2].type`:
//!
//! - an unknown field, at any depth, and a repeated one;
//! - a null, and a wrong JSON type: 1 for true, `"2"` for 2;
//! - a date that does not exist, an end before the start, an unassigned code, an amount without currency or the reverse (D22);
//! - a text that is too long or blank (D6, D21a), and a phone without a digit. Unknown values must be omitted,
//!   not sent empty. Three texts may be blank: an empty `guestNationality` clears it, `reason` is checked by the rule
//!   that requires one, and the marketing block comes from URLs where `utm_term=` is valid;
//! - an empty `travelDates`, `party` or `budget`. One of the two dates suffices.
//!
//! Only the items of an itinerary may have any further fields (D21b).
//!
//! An empty object is a valid body: a PATCH with it changes nothing. Further requirements (an identity, a reason, a stage that
//! can be set) are checked by the rules.

/// A struct whose fields may all be absent from a body, which has no others.
macro_rules! optional_fields {
    ($(#[$about:meta])* $visible:vis struct $name:ident { $($(#[$of_field:meta])* $shown:vis $field:ident: $type:ty,)+ }) => {
        $(#[$about])*
        #[derive(Deserr)]
        #[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
        $visible struct $name { $($(#[$of_field])* #[deserr(default)] $shown $field: $type,)+ }
    };
}
pub(crate) use optional_fields;

mod brief;
mod canonical;
mod client;
mod fault;
mod itinerary;
mod lead;
mod list;
mod scalar;
mod sent;
mod text;
mod tree;
mod trip;

pub use canonical::canonical;
pub use client::{AGE_MAX, Age, ClientBody, TRAVELERS_MAX, Traveler, TravelerType};
pub use itinerary::Itinerary;
pub use lead::{Attribution, Contact, LeadBody, LeadPatch};
pub use list::AtMost;
pub(crate) use scalar::number_text;
pub use scalar::{Nationality, Whole};
pub use sent::Sent;
pub use text::{Line, Prose, Verbatim};
pub use trip::TripPatch;

// Used by the parser of advisor actions.
pub(crate) use fault::{fault, one_of, other_kind};
pub(crate) use scalar::{Currency, from_string};

use crate::event::{Faults, check_json};
use deserr::Deserr;
use tree::Node;

/// A body of a records route.
pub trait RecordBody: Deserr<Faults> {
    /// The itinerary, if one was sent; `None` also for routes without itinerary.
    fn itinerary_mut(&mut self) -> Option<&mut Itinerary> {
        None
    }
}

/// Why a body is refused, always with 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// `invalid_request`: the faults of the body.
    #[error("{0}")]
    Invalid(Faults),
    /// `invalid_itinerary`: only the itinerary is wrong, with these `errors`.
    #[error("the itinerary is not valid")]
    InvalidItinerary(Vec<String>),
}

impl From<Faults> for BodyError {
    fn from(faults: Faults) -> Self {
        Self::Invalid(faults)
    }
}

/// Parses the body of a records route.
pub fn parse<T: RecordBody>(body: &[u8]) -> Result<T, BodyError> {
    let sent = tree::replace_long_numbers(check_json(body)?);
    let tree = Node::parse(sent.as_bytes()).map_err(|_| Faults::one("", "is not valid JSON"))?;
    let mut faults = tree::find_repeated_fields(&tree);
    match deserr::deserialize::<T, Node, Faults>(tree) {
        Ok(record) if faults.is_empty() => with_itinerary(record, body),
        Ok(_) => Err(faults.into()),
        Err(found) => {
            faults.0.extend(found.0);
            Err(faults.into())
        }
    }
}

fn with_itinerary<T: RecordBody>(mut record: T, body: &[u8]) -> Result<T, BodyError> {
    if let Some(itinerary) = record.itinerary_mut() {
        *itinerary = Itinerary::as_sent(body)?;
    }
    Ok(record)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
