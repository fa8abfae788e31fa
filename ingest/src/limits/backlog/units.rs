//! Estimates the work of a request, in backlog units, here called units.

use common::event::{BATCH_MAX, InboundType};
use memchr::memchr2;

/// Bytes of a unit.
const UNIT_BYTES: usize = 4 * 1024;
/// Maximum number of units of one event.
pub(super) const EVENT_UNITS_MAX: u64 = 3;
/// The most units of a batch by its events; its size in bytes may make it more.
pub(super) const BATCH_UNITS_MAX: u64 = BATCH_MAX as u64 * EVENT_UNITS_MAX;
/// The depth of nesting at which the events of a batch are: in an array in the outermost object.
const EVENT_DEPTH: u32 = 2;

/// Units of an event of that type: the cost for worker and database relative to a contact event
/// (`make bench ARGS=fairness`).
const fn event_units(event_type: InboundType) -> u64 {
    use InboundType as T;
    match event_type {
        T::EnquirySubmitted
        | T::DiscoveryUpserted
        | T::BookingStarted
        | T::BookingAbandoned
        | T::BookingCompleted
        | T::BookingCreditApplied => EVENT_UNITS_MAX,
        T::ContactIdentified
        | T::ContactUpdated
        | T::TripPlanningStarted
        | T::TripDraftUpdated
        | T::QuoteRequested
        | T::EmployeeCreditUpdated => 1,
    }
}

/// Units of a request: the larger of its `work` and its size.
pub(crate) fn units(work: u64, bytes: usize) -> u64 {
    work.max(bytes.div_ceil(UNIT_BYTES) as u64).max(1)
}

/// Estimates the backlog units of an unparsed body. For a valid batch the estimate is never too low. A body
/// whose size alone counts [`BATCH_UNITS_MAX`] or more is not scanned.
pub(crate) fn batch_units(body: &[u8]) -> u64 {
    let is_by_size = units(0, body.len()) >= BATCH_UNITS_MAX;
    units(if is_by_size { 0 } else { count_events(body) }, body.len())
}

/// Units of all objects at the depth of events, at most those of the largest batch. Looks only at brackets outside of strings,
/// so that no way of writing a name or a value hides an event, and counts all objects, so that others before the events
/// hide none either.
fn count_events(body: &[u8]) -> u64 {
    let (mut units, mut depth, mut at) = (0, 0_u32, 0);
    let mut event = EventTypeSearch::default();
    while let Some(&byte) = body.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let end = after_string(body, at);
                if depth == EVENT_DEPTH + 1 {
                    event
                        .note(body.get(at..end - 1).unwrap_or_default(), body.get(end..).unwrap_or_default());
                }
                at = end;
            }
            b'{' | b'[' => {
                if byte == b'{' && depth == EVENT_DEPTH {
                    event = EventTypeSearch::default();
                }
                depth += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if byte == b'}' && depth == EVENT_DEPTH {
                    units += event.units();
                    if units >= BATCH_UNITS_MAX {
                        return BATCH_UNITS_MAX;
                    }
                }
            }
            _ => {}
        }
    }
    units
}

/// Finds the type of an event without parsing the event. Where the type is unclear the event counts as one of the most
/// expensive, so that no way of writing a type makes it cheaper.
#[derive(Debug, Default)]
struct EventTypeSearch {
    /// Whether the last string was the name of the type's field.
    is_type_next: bool,
    /// The most units of the types that were found.
    found: Option<u64>,
    is_unclear: bool,
}

impl EventTypeSearch {
    /// Takes a string of the event's own fields, a name or a value, and the bytes after it.
    fn note(&mut self, string: &[u8], rest: &[u8]) {
        if std::mem::take(&mut self.is_type_next) {
            let named = str::from_utf8(string).ok().and_then(InboundType::parse);
            let units = named.map_or(EVENT_UNITS_MAX, event_units);
            self.found = self.found.max(Some(units));
        } else if rest.trim_ascii_start().first() == Some(&b':') {
            self.is_type_next = string == b"eventType";
            self.is_unclear |= string.contains(&b'\\');
        }
    }

    fn units(&self) -> u64 {
        self.found.filter(|_| !self.is_unclear).unwrap_or(EVENT_UNITS_MAX)
    }
}

/// The index after the string whose content begins at `at`.
fn after_string(body: &[u8], mut at: usize) -> usize {
    while let Some(found) = body.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if body[at - 1] == b'"' {
            return at;
        }
        // The character that is escaped.
        at += 1;
    }
    body.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::event::parse_batch;
    use proptest::prelude::*;

    /// A valid batch of compact events whose `eventId` is written as `name`, with `space` between its tokens.
    fn batch(name: &str, space: &str, details: &str, count: usize) -> String {
        batch_of(InboundType::ContactIdentified.as_str(), name, space, details, count)
    }

    fn batch_of(event_type: &str, name: &str, space: &str, details: &str, count: usize) -> String {
        let event = |i| {
            format!(
                r#"{{"{name}":"e{i}",{space}"specVersion":"1.0","eventType"{space}:"{event_type}","tenant":"acme","origin":"site","occurredAt":"2026-05-01T10:00:00Z","actor":{{"type":"contact","email":"a@b.example"}},"payload":{details}}}"#
            )
        };
        let events: Vec<String> = (0..count).map(event).collect();
        format!(r#"{{{space}"events":{space}[{}]}}"#, events.join(","))
    }

    /// Types of which an event costs the database as much as three contacts.
    const EXPENSIVE: [&str; 6] = [
        "enquiry.submitted",
        "traveller.discovery_upserted",
        "booking.started",
        "booking.abandoned",
        "booking.completed",
        "booking.credit_applied",
    ];

    #[test]
    fn an_event_counts_by_its_type() {
        assert!(EXPENSIVE.iter().all(|name| InboundType::parse(name).is_some()));
        for &event_type in InboundType::ALL {
            let body = batch_of(event_type.as_str(), "eventId", " ", "{}", 2);
            let units = if EXPENSIVE.contains(&event_type.as_str()) { 3 } else { 1 };
            assert_eq!(batch_units(body.as_bytes()), 2 * units, "{event_type}");
        }
        let full = batch_of("enquiry.submitted", "eventId", "", "{}", BATCH_MAX);
        assert_eq!(batch_units(full.as_bytes()), BATCH_UNITS_MAX);
    }

    #[test]
    fn no_way_of_writing_a_type_makes_an_event_cheaper() {
        for written in [
            r#""eventType":"enquiry\u002esubmitted""#,
            r#""event\u0054ype":"enquiry.submitted""#,
            r#""event\u0054ype":"enquiry.submitted","eventType":"contact.identified""#,
            r#""eventType":"enquiry.submitted","eventType":"contact.identified""#,
            r#""eventType":"contact.identified","eventType":"enquiry.submitted""#,
            r#""eventType":{"eventType":"contact.identified"}"#,
            r#""origin":"eventType","site":"contact.identified""#,
            r#""payload":{"eventType":"contact.identified"},"eventType":"enquiry.submitted""#,
            r#""eventType":"made.up""#,
        ] {
            let body = format!(r#"{{"events":[{{{written}}}]}}"#);
            assert_eq!(batch_units(body.as_bytes()), EVENT_UNITS_MAX, "{written}");
        }
    }

    #[test]
    fn objects_beside_the_events_hide_none_of_them() {
        let cheap = vec![r#"{"eventType":"contact.identified"}"#; BATCH_MAX].join(",");
        let events = vec![r#"{"eventType":"enquiry.submitted"}"#; BATCH_MAX].join(",");
        for body in [
            format!(r#"{{"sentBy":[{cheap}],"events":[{events}]}}"#),
            format!(r#"{{"events":[{cheap}],"events":[{events}]}}"#),
        ] {
            assert_eq!(batch_units(body.as_bytes()), BATCH_UNITS_MAX, "{body}");
        }
    }

    #[test]
    fn an_escaped_name_hides_no_event() {
        let compact = batch(r"event\u0049d", "", "{}", BATCH_MAX);
        assert_eq!(parse_batch(compact.as_bytes(), "acme").map(|events| events.len()), Ok(BATCH_MAX));
        assert_eq!(batch_units(compact.as_bytes()), BATCH_UNITS_MAX);
    }

    #[test]
    fn brackets_in_strings_and_in_the_data_of_events_do_not_count() {
        let details = r#"{"a":"]}[{\"{\\","b":[{"c":{}},{}]}"#;
        assert_eq!(batch_units(batch("eventId", " ", details, 3).as_bytes()), 3);
    }

    #[test]
    fn a_body_counts_by_its_bytes_where_that_is_more() {
        assert_eq!(batch_units(b"{}"), 1);
        assert_eq!(batch_units(&vec![b' '; 5 * UNIT_BYTES + 1]), 6);
        assert_eq!(batch_units(&vec![b'['; 600 * UNIT_BYTES]), 600);
        assert_eq!(
            batch_units(&[br#"{"events":["#, br"{}".repeat(1_000).as_slice()].concat()),
            BATCH_UNITS_MAX
        );
    }

    proptest! {
        #[test]
        fn a_valid_batch_is_never_taken_for_less_than_it_is(
            count in 1..=BATCH_MAX,
            event_type in proptest::sample::select(InboundType::ALL),
            text in any::<String>(),
            space in "[ \n\t]{0,3}",
        ) {
            let details = serde_json::json!({"text": text, "more": [{}]}).to_string();
            let body = batch_of(event_type.as_str(), "eventId", &space, &details, count);
            let read = parse_batch(body.as_bytes(), "acme").map_or(0, |events| events.len());
            prop_assert_eq!(read, if text.contains('\0') { 0 } else { count });
            prop_assert_eq!(batch_units(body.as_bytes()), units(count as u64 * event_units(event_type), body.len()));
        }

        #[test]
        fn any_bytes_can_be_counted(body: Vec<u8>) {
            prop_assert!(batch_units(&body) <= units(BATCH_UNITS_MAX, body.len()));
        }
    }
}
