//! Warnings in the result of an accepted event: the parts of it that were not applied.

/// The `externalId` belongs to another client (D10).
pub(super) const IDENTITY_CONFLICT: &str = "identity_conflict:externalId";
/// A `booking.*` event names a lead that does not exist or belongs to another client (D11).
pub(super) const ENQUIRY_NOT_FOUND: &str = "enquiry_not_found";
/// The `bookingRef` belongs to another lead.
pub(super) const BOOKING_REF_CONFLICT: &str = "booking_ref_conflict";
/// The `bookingRef` is that of a canceled booking (D30).
pub(super) const BOOKING_CANCELLED: &str = "booking_cancelled";
/// The `itinerarySnapshot` is invalid (D15).
pub(super) const ITINERARY_REJECTED: &str = "itinerary_rejected";
/// Traveller Discovery is off (specification: Inbound event types).
pub(super) const DISCOVERY_NOT_ENABLED: &str = "traveller_discovery_not_enabled";
/// The discovery part could not be stored.
pub(super) const DISCOVERY_FAILED: &str = "traveller_discovery_upsert_failed";
/// Prefix of a field's name: the field of the brief is invalid (D15).
pub(super) const BRIEF_FIELD: &str = "brief_field_rejected";
/// Prefix of a field's name: the field of the booking is invalid.
pub(super) const BOOKING_FIELD: &str = "booking_field_rejected";
/// Prefix of a field's name: the field of the credit balance is invalid.
pub(super) const CREDIT_FIELD: &str = "credit_field_rejected";
/// Prefix of a field's name: the field of the discovery is invalid.
pub(super) const DISCOVERY_FIELD: &str = "traveller_discovery_field_rejected";

/// Warnings in the order in which they were added, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    /// Adds a warning, unless it was added before.
    pub(crate) fn push(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.0.contains(&warning) {
            self.0.push(warning);
        }
    }

    /// Adds the warning `<kind>:<field>` about an invalid field.
    pub(crate) fn push_rejected(&mut self, kind: &str, field: &str) {
        self.push(format!("{kind}:{field}"));
    }

    /// The warnings in their order, as the result lists them.
    pub(crate) fn into_vec(self) -> Vec<String> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_kept_once_and_in_order() {
        let mut warnings = Warnings::default();
        warnings.push("b");
        warnings.push_rejected("a", "x");
        warnings.push("b");
        assert_eq!(warnings.into_vec(), ["b", "a:x"]);
    }
}
