//! A bundle: one message with the events of several requests of one caller, and one reply for all of them.
//!
//! It is a valid batch, `{"events":[..]}`, of all their events, and its reply is the result of that batch. The metadata's `parts` delimit each request's events,
//! so that a part that cannot be read does not affect the results of the others.

use crate::event::{BatchResult, EventResult, EventStatus};
use crate::message::{BatchMeta, BatchPart};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Maximum number of bytes of a bundle's events.
pub const BUNDLE_BYTES_MAX: usize = 256 * 1024;

const OPEN: &[u8] = br#"{"events":["#;
const SEPARATOR: &[u8] = b",";
const CLOSE: &[u8] = b"]}";

/// The body of a bundle of parts with these events, each given as the text between the brackets of its `events`.
pub fn join(parts: &[&[u8]]) -> Vec<u8> {
    [OPEN, &parts.join(SEPARATOR), CLOSE].concat()
}

/// The text of each part's events in the body of a bundle. `None` when the parts do not fit the body or the number of
/// events.
pub fn split<'b>(body: &'b [u8], meta: &BatchMeta) -> Option<Vec<&'b [u8]>> {
    let events: u64 = meta.parts.iter().map(|part| u64::from(part.events)).sum();
    if events != u64::from(meta.events) || meta.parts.iter().any(|part| part.events == 0) {
        return None;
    }
    let mut rest = body.strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    let mut texts = Vec::with_capacity(meta.parts.len());
    for (at, part) in meta.parts.iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix(SEPARATOR)?;
        }
        let (text, left) = rest.split_at_checked(part.bytes)?;
        texts.push(text);
        rest = left;
    }
    rest.is_empty().then_some(texts)
}

/// The reply to a bundle. Without malformed parts it is a [`BatchResult`] like that of any batch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reply<'r> {
    #[serde(flatten)]
    result: &'r BatchResult,
    /// Indexes of the parts that have no results, because their events could not be read.
    #[serde(rename = "rejectedParts", skip_serializing_if = "Vec::is_empty")]
    malformed_parts: Vec<usize>,
}

/// The reply to a bundle whose parts had these results; `None` for a part that could not be read.
pub fn write_reply(parts: Vec<Option<Vec<EventResult>>>) -> Vec<u8> {
    let is_malformed = |(at, part): (usize, &Option<Vec<EventResult>>)| part.is_none().then_some(at);
    let malformed_parts = parts.iter().enumerate().filter_map(is_malformed).collect();
    let result = &BatchResult::new(parts.into_iter().flatten().flatten().collect());
    serde_json::to_vec(&Reply { result, malformed_parts }).expect("results have string keys")
}

/// The fields of a reply that are needed to split it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentReply<'r> {
    #[serde(borrow)]
    results: Vec<&'r RawValue>,
    #[serde(rename = "rejectedParts", default)]
    malformed_parts: Vec<usize>,
}

/// A result's status; its other fields are not parsed.
#[derive(Deserialize)]
struct Status {
    status: EventStatus,
}

/// Splits the reply to a bundle into each part's own: JSON of a `BatchResult`, or `None` for a part that could not be
/// read. `None` when the reply does not fit the parts.
pub fn split_reply(reply: &[u8], parts: &[BatchPart]) -> Option<Vec<Option<Vec<u8>>>> {
    let SentReply { results, malformed_parts } = serde_json::from_slice(reply).ok()?;
    let mut rest = results.as_slice();
    let mut replies = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        if malformed_parts.contains(&at) {
            replies.push(None);
            continue;
        }
        let (own, left) = rest.split_at_checked(usize::from(part.events))?;
        replies.push(Some(part_reply(own)?));
        rest = left;
    }
    rest.is_empty().then_some(replies)
}

/// Composes a batch result from results, whose text is kept.
fn part_reply(results: &[&RawValue]) -> Option<Vec<u8>> {
    let (mut accepted, mut duplicate, mut failed) = (0, 0, 0);
    for result in results {
        let Status { status } = serde_json::from_str(result.get()).ok()?;
        match status {
            EventStatus::Accepted => accepted += 1,
            EventStatus::Duplicate => duplicate += 1,
            EventStatus::Failed => failed += 1,
        }
    }
    let texts: Vec<&str> = results.iter().map(|result| result.get()).collect();
    let texts = texts.join(",");
    let reply = format!(r#"{{"accepted":{accepted},"duplicate":{duplicate},"failed":{failed},"results":[{texts}]}}"#);
    Some(reply.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn parts(parts: &[(u16, usize)]) -> Vec<BatchPart> {
        let part = |&(events, bytes)| BatchPart { request_id: Uuid::nil(), traceparent: None, events, bytes };
        parts.iter().map(part).collect()
    }

    #[test]
    fn a_reply_that_does_not_fit_the_parts_is_refused() {
        let reply = write_reply(vec![Some(vec![EventResult::failed("a", "")])]);
        assert!(split_reply(&reply, &parts(&[(1, 7)])).is_some());
        for others in [&[(2, 7)][..], &[(1, 7), (1, 7)], &[]] {
            assert_eq!(split_reply(&reply, &parts(others)), None, "{others:?}");
        }
        assert_eq!(split_reply(b"{}", &[]), None);
    }
}
