//! The trip-change body (specification: PATCH /leads/{leadId}/trip).

use super::RecordBody;
use super::itinerary::Itinerary;
use super::leaf::Nationality;
use super::sent::Sent;
use super::text::{Line, Prose};
use crate::event::Faults;
use crate::model::{Budget, Party, TravelDates, text};
use deserr::Deserr;

/// What a customer changes of a trip. Without any field, nothing does.
#[derive(Clone, Debug, Default, PartialEq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct TripPatch {
    /// Title.
    #[deserr(default)]
    pub title: Sent<Line<{ text::NAME }>>,
    /// Where to.
    #[deserr(default)]
    pub destination: Sent<Line<{ text::LINE }>>,
    /// When.
    #[deserr(default)]
    pub travel_dates: Sent<TravelDates>,
    /// Who.
    #[deserr(default)]
    pub party: Sent<Party>,
    /// For how much; replaces the stated budget as a whole.
    #[deserr(default)]
    pub budget: Sent<Budget>,
    /// Passport country of the party; can be cleared.
    #[deserr(default)]
    pub guest_nationality: Sent<Nationality>,
    /// For the draft proposal; whether it is applied is a rule.
    #[deserr(default)]
    pub itinerary: Sent<Itinerary>,
    /// The customer's words, for the inbox thread.
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
