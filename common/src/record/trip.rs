//! The trip-change body (specification: PATCH /leads/{leadId}/trip).

use super::RecordBody;
use super::itinerary::Itinerary;
use super::scalar::Nationality;
use super::sent::Sent;
use super::text::{Line, Prose};
use crate::event::Faults;
use crate::model::{Budget, Party, TravelDates, text};
use deserr::Deserr;

crate::record::optional_fields! {
    /// The fields of a trip that a customer changes; an empty patch changes nothing.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct TripPatch {
        /// At most 200 characters.
        pub title: Sent<Line<{ text::NAME }>>,
        /// Free text, at most 500 characters.
        pub destination: Sent<Line<{ text::LINE }>>,
        /// Travel dates; replace the stated ones.
        pub travel_dates: Sent<TravelDates>,
        /// Travel party; replaces the stated one.
        pub party: Sent<Party>,
        /// Budget; replaces the stated one as a whole.
        pub budget: Sent<Budget>,
        /// Passport country of the party; can be cleared.
        pub guest_nationality: Sent<Nationality>,
        /// For the draft proposal; whether it is applied is decided by the rules.
        pub itinerary: Sent<Itinerary>,
        /// The customer's message, for the inbox thread.
        pub message: Sent<Prose<{ text::MESSAGE }>>,
        /// One line on what changed; also the reason of a date correction.
        pub change_summary: Sent<Line<{ text::LINE }>>,
    }
}

impl RecordBody for TripPatch {
    fn itinerary_mut(&mut self) -> Option<&mut Itinerary> {
        self.itinerary.get_mut()
    }
}
