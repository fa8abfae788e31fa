//! The types of events that are sent, and their payloads as text. The payloads fill an event up to about 600 bytes.

/// A type of event that the benchmark sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Identified,
    Updated,
    Enquiry,
    PlanningStarted,
    DraftUpdated,
    QuoteRequested,
    BookingStarted,
    BookingAbandoned,
    BookingCompleted,
    Discovery,
}

const BROWSING: &str = r#"{"source":"newsletter","page":"/journeys/kerala-backwaters","interests":["houseboat","ayurveda","spice gardens"],"locale":"en-IN","sessions":4,"lastSeen":"2026-05-01T09:58:12Z","consent":{"email":true,"sms":false},"device":{"type":"mobile","os":"Android"}}"#;
const PLANNING: &str = r#"{"draft":{"title":"Backwaters and hills","days":7,"stops":["Kochi","Munnar","Thekkady","Alleppey"],"adults":2,"children":1},"page":"/planner","locale":"en-IN","sessions":4,"savedAt":"2026-05-01T09:58:12Z","device":{"type":"mobile","os":"Android"}}"#;
const QUOTE: &str = r#"{"quote":{"package":"kerala-backwaters-7n","adults":2,"children":1,"rooms":1,"startDate":"2026-11-02"},"page":"/journeys/kerala-backwaters","locale":"en-IN","sessions":4,"askedAt":"2026-05-01T09:58:12Z","device":{"type":"mobile","os":"Android"}}"#;
const BOOKING: &str = r#"{"package":"kerala-backwaters-7n","step":"payment","amount":84500,"currency":"INR","adults":2,"children":1,"locale":"en-IN","sessions":6,"at":"2026-05-01T09:58:12Z"}"#;
const DISCOVERY: &str = r#"{"discovery":{"destinationInterest":["Kerala","Goa"],"dateRange":{"start":"2026-11-02","end":"2026-11-12"},"pax":{"adults":2,"children":1},"tripNotes":"Slow travel, one houseboat night"},"profilePatch":{"constraints":{"diet":["vegetarian"]},"styleDefaults":{"pace":"slow"}}}"#;

impl EventKind {
    /// The `eventType` of the envelope.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Identified => "contact.identified",
            Self::Updated => "contact.updated",
            Self::Enquiry => "enquiry.submitted",
            Self::PlanningStarted => "trip.planning_started",
            Self::DraftUpdated => "trip.draft_updated",
            Self::QuoteRequested => "quote.requested",
            Self::BookingStarted => "booking.started",
            Self::BookingAbandoned => "booking.abandoned",
            Self::BookingCompleted => "booking.completed",
            Self::Discovery => "traveller.discovery_upserted",
        }
    }

    /// The `payload` of the envelope. Values that must be unique are derived from the event's id.
    pub(crate) fn payload(self, event_id: &str) -> String {
        match self {
            Self::Identified | Self::Updated => BROWSING.to_owned(),
            Self::PlanningStarted | Self::DraftUpdated => PLANNING.to_owned(),
            Self::QuoteRequested => QUOTE.to_owned(),
            Self::BookingStarted | Self::BookingAbandoned => BOOKING.to_owned(),
            Self::Discovery => DISCOVERY.to_owned(),
            Self::BookingCompleted => format!(
                r#"{{"bookingRef":"{event_id}","amount":84500,"currency":"INR","package":"kerala-backwaters-7n","adults":2,"children":1,"at":"2026-05-01T09:58:12Z"}}"#
            ),
            Self::Enquiry => format!(
                r#"{{"externalLeadId":"{event_id}","destination":"Kerala","travelDates":{{"start":"2026-11-02","end":"2026-11-12"}},"party":{{"adults":2,"children":1,"rooms":1}},"budget":{{"amount":250000,"currency":"INR"}},"attribution":{{"source":"google","medium":"cpc","campaign":"monsoon"}}}}"#
            ),
        }
    }
}
