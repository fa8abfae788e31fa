//! Warnings in the result of an accepted event: the parts of it that were not applied.

use common::model::{Party, text};

/// The `externalId` belongs to another client (D10).
pub(super) const IDENTITY_CONFLICT: &str = "identity_conflict:externalId";
/// A `booking.*` event names a lead that does not exist or belongs to another client (D11).
pub(super) const ENQUIRY_NOT_FOUND: &str = "enquiry_not_found";
/// A `booking.*` event names no lead, and the client has none that it can change; or `booking.started` or
/// `booking.abandoned` names a closed one (D11).
pub(super) const NO_OPEN_ENQUIRY: &str = "no_open_enquiry";
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

/// What a warning means, or which form a rejected field must have: the `reason` in `warningDetails` of the result (D45).
pub(super) fn reason(warning: &str) -> String {
    let texts = |max: usize| format!("must be a text of at most {max} characters");
    let reason = match warning {
        IDENTITY_CONFLICT => "another client has this externalId; this one stays without it",
        ENQUIRY_NOT_FOUND => "the enquiry that the event names does not exist, or is another client's",
        NO_OPEN_ENQUIRY => "the client has no enquiry that the event could change; it is in the timeline only",
        BOOKING_REF_CONFLICT => "another enquiry has a booking with this bookingRef",
        BOOKING_CANCELLED => "the booking with this bookingRef was canceled; a new one needs a new bookingRef",
        ITINERARY_REJECTED => "itinerarySnapshot must be {title, days}, each day and each of its items with a title",
        DISCOVERY_NOT_ENABLED => "the agency has not turned Traveller Discovery on",
        DISCOVERY_FAILED => "Traveller Discovery could not be stored; resend it with a new eventId",
        _ => match warning.split_once(':').map_or("", |(_, field)| field) {
            "travelDates" => "must be {start, end}, dates that exist, as YYYY-MM-DD, and must not end before it starts",
            "party" | "paxCount" => {
                return format!("counts and ages must be whole numbers from 0 to {}", Party::COUNT_MAX);
            }
            "budget" => "must be a text, or have either amount and an ISO 4217 currency, or notes",
            "guestNationality" => "must be an ISO 3166-1 country code of two letters",
            "attribution" => "must be an object of texts",
            "title" | "corporateName" => return texts(text::NAME),
            "destination" => return texts(text::LINE),
            "message" | "essence" | "tripNotes" => return texts(text::MESSAGE),
            "externalLeadId" | "membershipId" => return texts(text::EXTERNAL_ID),
            "bookingRef" => return texts(text::BOOKING_REF),
            "amount" | "creditUsed" => "must be a number from 0 with at most 15 digits",
            "currency" => "must be an ISO 4217 currency code",
            "availablePaise" | "grantedPaise" => "must be a whole number",
            "redeemablePercent" => "must be a number from 0 to 100",
            "asOf" => "must be an RFC 3339 time with an offset, at most a day ahead",
            "destinationInterest" => "must be a text of at most 500 characters, or at most 50 of them",
            "dateRange" => "must be a text of at most 200 characters, or an object of dates, as travelDates",
            "pax" => "must be a whole number from 0 to 1000, or a party",
            "constraints" => "must be a text, at most 50 texts, or an object of at most 64 KiB",
            "styleDefaults" => "must be an object of at most 64 KiB",
            "hosTripDiscoveryId" => "must be the discoveryId of an earlier result for this client",
            _ => "has not the form that the API's description says",
        },
    };
    reason.to_owned()
}

/// Warnings in the order in which they were added, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    /// Adds a warning, unless it was added before.
    pub(crate) fn push(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.contains(&warning) {
            self.0.push(warning);
        }
    }

    /// Whether the warning was added.
    pub(crate) fn contains(&self, warning: &str) -> bool {
        self.0.iter().any(|added| added == warning)
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
    use std::collections::BTreeSet;

    #[test]
    fn partners_are_told_of_exactly_the_warnings_and_errors_that_there_are() {
        let page = include_str!("../../../docs/partners.md");
        for (heading, source, start) in [
            ("\n### Errors of single events\n", include_str!("refusal.rs"), "Self::"),
            ("\n### Warnings\n", include_str!("warnings.rs"), "pub(super) const "),
        ] {
            let (_, section) = page.split_once(heading).unwrap();
            let (_, table) = section.split_once("|---|---|---|\n").unwrap();
            let cells = table.lines().map_while(|line| line.strip_prefix("| ")?.split(" | ").next());
            let listed: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
            let told: BTreeSet<&str> = listed.into_iter().map(|code| code.trim_end_matches(":<field>")).collect();
            let codes = source.lines().filter_map(|line| line.trim_start().strip_prefix(start)?.split('"').nth(1));
            assert_eq!(told, codes.collect::<BTreeSet<&str>>(), "{heading}");
        }
    }

    #[test]
    fn a_warning_says_what_was_expected() {
        assert_eq!(reason("brief_field_rejected:paxCount"), "counts and ages must be whole numbers from 0 to 1000");
        assert_eq!(reason("booking_field_rejected:bookingRef"), "must be a text of at most 100 characters");
        assert!(reason(NO_OPEN_ENQUIRY).contains("timeline only"));
    }

    #[test]
    fn warnings_are_kept_once_and_in_order() {
        let mut warnings = Warnings::default();
        warnings.push("b");
        warnings.push_rejected("a", "x");
        warnings.push("b");
        assert_eq!(warnings.into_vec(), ["b", "a:x"]);
    }
}
