//! What an accepted event left out, for its result's `warnings`.

/// An `externalId` that another client holds (D10).
pub(super) const IDENTITY_CONFLICT: &str = "identity_conflict:externalId";
/// A `booking.*` that names an enquiry which isn't this client's (D11).
pub(super) const ENQUIRY_NOT_FOUND: &str = "enquiry_not_found";
/// A `bookingRef` that belongs to another enquiry.
pub(super) const BOOKING_REF_CONFLICT: &str = "booking_ref_conflict";
/// An invalid `itinerarySnapshot` (D15).
pub(super) const ITINERARY_REJECTED: &str = "itinerary_rejected";
/// Traveller Discovery is off (specification: Inbound event types).
pub(super) const DISCOVERY_NOT_ENABLED: &str = "traveller_discovery_not_enabled";
/// The discovery part could not be stored.
pub(super) const DISCOVERY_FAILED: &str = "traveller_discovery_upsert_failed";
/// With a field: part of an enquiry's brief that can't be read (D15).
pub(super) const BRIEF_FIELD: &str = "brief_field_rejected";
/// With a field: part of a booking that can't be read.
pub(super) const BOOKING_FIELD: &str = "booking_field_rejected";
/// With a field: part of a credit balance that can't be read.
pub(super) const CREDIT_FIELD: &str = "credit_field_rejected";
/// With a field: part of a traveller's discovery that can't be read.
pub(super) const DISCOVERY_FIELD: &str = "traveller_discovery_field_rejected";

/// Warnings in the order they arose, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings(Vec<String>);

impl Warnings {
    /// Adds a warning, unless it is there.
    pub fn push(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.0.contains(&warning) {
            self.0.push(warning);
        }
    }

    /// Adds `<kind>:<field>`.
    pub fn rejected(&mut self, kind: &str, field: &str) {
        self.push(format!("{kind}:{field}"));
    }

    /// The warnings.
    pub fn into_vec(self) -> Vec<String> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_given_once_and_in_its_order() {
        let mut warnings = Warnings::default();
        warnings.push("b");
        warnings.rejected("a", "x");
        warnings.push("b");
        assert_eq!(warnings.into_vec(), ["b", "a:x"]);
    }
}
