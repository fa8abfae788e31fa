//! The trip-change body (specification: PATCH /leads/{leadId}/trip).

use super::RecordBody;
use super::itinerary::Itinerary;
use super::scalar::Nationality;
use super::sent::Sent;
use super::text::{Line, Prose};
use crate::event::Faults;
use crate::model::{Budget, Party, TravelDates, text};
use deserr::Deserr;

/// The fields of a trip that a customer changes; an empty patch changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct TripPatch {
    /// At most 200 characters.
    #[deserr(default)]
    pub title: Sent<Line<{ text::NAME }>>,
    /// Free text, at most 500 characters.
    #[deserr(default)]
    pub destination: Sent<Line<{ text::LINE }>>,
    /// Travel dates; replace the stated ones.
    #[deserr(default)]
    pub travel_dates: Sent<TravelDates>,
    /// Travel party; replaces the stated one.
    #[deserr(default)]
    pub party: Sent<Party>,
    /// Budget; replaces the stated one as a whole.
    #[deserr(default)]
    pub budget: Sent<Budget>,
    /// Passport country of the party; can be cleared.
    #[deserr(default)]
    pub guest_nationality: Sent<Nationality>,
    /// For the draft proposal; whether it is applied is decided by the rules.
    #[deserr(default)]
    pub itinerary: Sent<Itinerary>,
    /// The customer's message, for the inbox thread.
    #[deserr(default)]
    pub message: Sent<Prose<{ text::MESSAGE }>>,
    /// One line on what changed; also the reason of a date correction.
    #[deserr(default)]
    pub change_summary: Sent<Line<{ text::LINE }>>,
}

impl RecordBody for TripPatch {
    fn itinerary_mut(&mut self) -> Option<&mut Itinerary> {
        self.itinerary.get_mut()
    }
}
