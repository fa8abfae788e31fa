//! The client body (specification: POST /clients and PATCH /clients/{clientId}).

use super::RecordBody;
use super::list::AtMost;
use super::scalar::Whole;
use super::sent::Sent;
use super::text::Line;
use crate::event::Faults;
use crate::model::{Email, Phone, text};
use deserr::Deserr;

/// Maximum number of travelers of a client (specification: Limits).
pub const TRAVELERS_MAX: usize = 50;
/// Greatest age, in years.
pub const AGE_MAX: u32 = 150;
/// An age in years.
pub type Age = Whole<AGE_MAX>;

crate::record::optional_fields! {
    /// The fields of a client that is created or changed. A PATCH changes only the fields that were sent.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct ClientBody {
        /// Full name.
        pub name: Sent<Line<{ text::NAME }>>,
        /// Strongest identity.
        pub email: Sent<Email>,
        /// Weakest identity.
        pub phone: Sent<Phone>,
        /// Label, at most 500 characters.
        pub company: Sent<Line<{ text::LINE }>>,
        /// The caller's own id for the person.
        pub external_id: Sent<Line<{ text::EXTERNAL_ID }>>,
        /// Marketing consent.
        pub marketing_opt_in: Sent<bool>,
        /// The whole roster; an empty one removes all travelers.
        pub travelers: Sent<AtMost<TRAVELERS_MAX, Traveler>>,
    }
}

impl RecordBody for ClientBody {}

/// One of a client's travelers.
#[derive(Clone, Debug, PartialEq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields)]
pub struct Traveler {
    /// Full name, required.
    pub name: Line<{ text::NAME }>,
    /// `adult` when omitted.
    #[deserr(rename = "type", default)]
    pub kind: TravelerType,
    /// In years.
    #[deserr(default)]
    pub age: Sent<Age>,
    /// The traveler's own address, which does not identify the client.
    #[deserr(default)]
    pub email: Sent<Email>,
    /// The traveler's own phone, which does not identify the client.
    #[deserr(default)]
    pub phone: Sent<Phone>,
}

crate::named! {
    /// The age group of a traveler. Names are those on the wire and in the database.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserr)]
    #[deserr(error = Faults, rename_all = lowercase)]
    pub enum TravelerType {
        /// `adult`
        #[default]
        Adult = "adult",
        /// `child`
        Child = "child",
        /// `infant`
        Infant = "infant",
    }
}
