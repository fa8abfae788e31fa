//! How much work a request is, in units.

use common::event::BATCH_MAX;
use memchr::memchr2;

/// Bytes of a unit.
const UNIT_BYTES: usize = 4 * 1024;
/// Depth in a batch at which its events are: in the array of the outermost object.
const EVENT_DEPTH: u32 = 2;

/// Units of a body with so many events or writes.
pub fn units(count: usize, bytes: usize) -> u64 {
    count.max(bytes.div_ceil(UNIT_BYTES)).max(1) as u64
}

/// Units of a batch that has not been read; of a valid batch never fewer than it has. Looks at no more bytes than
/// [`BATCH_MAX`] units have: a larger body is as many units for its size alone.
pub fn batch_units(body: &[u8]) -> u64 {
    let count = if body.len().div_ceil(UNIT_BYTES) < BATCH_MAX { count_events(body) } else { 0 };
    units(count, body.len())
}

/// Counts the objects at the depth of events, at most [`BATCH_MAX`] of them. Looks only at brackets outside of strings, so that
/// no way of writing a name or a value hides an event.
fn count_events(body: &[u8]) -> usize {
    let (mut count, mut depth, mut at) = (0, 0_u32, 0);
    while let Some(&byte) = body.get(at) {
        at += 1;
        match byte {
            b'"' => at = after_string(body, at),
            b'{' | b'[' => {
                count += usize::from(byte == b'{' && depth == EVENT_DEPTH);
                if count == BATCH_MAX {
                    break;
                }
                depth += 1;
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    count
}

/// The place after the string whose content begins at `at`.
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
        let event = |i| {
            format!(
                r#"{{"{name}":"e{i}",{space}"specVersion":"1.0","eventType":"contact.identified","tenant":"acme","origin":"site","occurredAt":"2026-05-01T10:00:00Z","actor":{{"type":"contact","email":"a@b.example"}},"payload":{details}}}"#
            )
        };
        let events: Vec<String> = (0..count).map(event).collect();
        format!(r#"{{{space}"events":{space}[{}]}}"#, events.join(","))
    }

    #[test]
    fn an_escaped_name_hides_no_event() {
        let compact = batch(r"event\u0049d", "", "{}", BATCH_MAX);
        assert_eq!(parse_batch(compact.as_bytes(), "acme").map(|events| events.len()), Ok(BATCH_MAX));
        assert_eq!(batch_units(compact.as_bytes()), BATCH_MAX as u64);
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
        assert_eq!(batch_units(&vec![b'['; 2 * BATCH_MAX * UNIT_BYTES]), 2 * BATCH_MAX as u64);
        assert_eq!(
            batch_units(&[br#"{"events":["#, br"{}".repeat(1_000).as_slice()].concat()),
            BATCH_MAX as u64
        );
    }

    proptest! {
        #[test]
        fn a_valid_batch_is_never_taken_for_less_than_it_is(
            count in 1..=BATCH_MAX,
            text in any::<String>(),
            space in "[ \n\t]{0,3}",
        ) {
            let details = serde_json::json!({"text": text, "more": [{}]}).to_string();
            let body = batch("eventId", &space, &details, count);
            let read = parse_batch(body.as_bytes(), "acme").map_or(0, |events| events.len());
            prop_assert_eq!(read, if text.contains('\0') { 0 } else { count });
            prop_assert_eq!(batch_units(body.as_bytes()), units(count, body.len()));
        }

        #[test]
        fn any_bytes_can_be_counted(body: Vec<u8>) {
            prop_assert!(batch_units(&body) <= units(BATCH_MAX, body.len()));
        }
    }
}
