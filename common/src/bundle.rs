//! A bundle: one message with the requests of one caller that waited together, each as the message that it would be alone, and
//! one reply with the replies to all of them. Publisher and consumer join and split; handlers see requests only.

use crate::caller::Caller;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Maximum number of records writes in a bundle: a lane of the worker receives some messages ahead, whatever is in them.
pub const BUNDLE_WRITES_MAX: usize = 4;
/// Maximum number of bytes of a bundle.
pub const BUNDLE_BYTES_MAX: usize = 256 * 1024;

/// Metadata of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleMeta {
    /// The caller of all its requests.
    pub caller: Caller,
    /// When it was published.
    pub published_at: DateTime<Utc>,
    /// What the metadata of each request begins with, such as their caller. It is sent once.
    pub prefix: String,
    /// Its requests, in their order in the body.
    pub parts: Vec<BundlePart>,
}

/// A request of a bundle: how many bytes of the body are its metadata, and after them its own body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundlePart {
    /// The id of the request.
    pub request_id: Uuid,
    /// Its weight in a unit of the worker.
    pub weight: u16,
    /// Bytes of its metadata after the prefix.
    pub meta_bytes: usize,
    /// Bytes of its body.
    pub bytes: usize,
}

/// A request with its metadata, which is JSON, and its body.
#[derive(Clone, Copy, Debug)]
pub struct BundledRequest<'r> {
    /// The id of the request, by which its caller and the logs know it.
    pub id: Uuid,
    /// See [`BundlePart::weight`].
    pub weight: u16,
    /// JSON of a `BatchMeta` or a `WriteMeta`.
    pub meta: &'r str,
    /// As the caller sent it.
    pub body: &'r [u8],
}

impl BundleMeta {
    /// Metadata and body of a bundle of these requests.
    pub fn join(caller: Caller, published_at: DateTime<Utc>, requests: &[BundledRequest<'_>]) -> (Self, Vec<u8>) {
        let metas: Vec<&str> = requests.iter().map(|request| request.meta).collect();
        let prefix = common_prefix(&metas);
        let mut body = Vec::with_capacity(requests.iter().map(|request| request.meta.len() + request.body.len()).sum());
        let mut parts = Vec::with_capacity(requests.len());
        for BundledRequest { id, weight, meta, body: own } in requests {
            let meta = &meta[prefix.len()..];
            body.extend_from_slice(meta.as_bytes());
            body.extend_from_slice(own);
            parts.push(BundlePart { request_id: *id, weight: *weight, meta_bytes: meta.len(), bytes: own.len() });
        }
        (Self { caller, published_at, prefix: prefix.to_owned(), parts }, body)
    }

    /// The JSON of the message's header.
    pub fn to_header(&self) -> String {
        serde_json::to_string(self).expect("it has string keys")
    }

    /// The metadata and body of each request. `None` when the parts are not together exactly `body`.
    pub fn split<'b>(&self, body: &'b [u8]) -> Option<Vec<(String, &'b [u8])>> {
        let mut rest = body;
        let mut take = |bytes| {
            let (taken, left) = rest.split_at_checked(bytes)?;
            rest = left;
            Some(taken)
        };
        let part = |part: &BundlePart| {
            let meta = std::str::from_utf8(take(part.meta_bytes)?).ok()?;
            Some((format!("{}{meta}", self.prefix), take(part.bytes)?))
        };
        let parts = self.parts.iter().map(part).collect::<Option<Vec<_>>>()?;
        (rest.is_empty() && !parts.is_empty()).then_some(parts)
    }
}

/// The text that all of these begin with.
fn common_prefix<'t>(texts: &[&'t str]) -> &'t str {
    let Some((first, others)) = texts.split_first() else { return "" };
    let shared = |other: &&str| first.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let length = others.iter().map(shared).min().unwrap_or(first.len());
    &first[..first.floor_char_boundary(length)]
}

/// The reply to a bundle whose requests have these replies, which are JSON; `None` for one that has none.
pub fn join_replies(replies: &[Option<&[u8]>]) -> Vec<u8> {
    let texts: Vec<&[u8]> = replies.iter().map(|reply| reply.unwrap_or(b"null")).collect();
    [b"[", texts.join(&b","[..]).as_slice(), b"]"].concat()
}

/// Splits the reply to a bundle of so many requests. `None` when it has another number of replies.
pub fn split_reply(reply: &[u8], requests: usize) -> Option<Vec<Option<Vec<u8>>>> {
    let replies: Vec<Option<&RawValue>> = serde_json::from_slice(reply).ok()?;
    let text = |reply: Option<&RawValue>| reply.map(|reply| reply.get().as_bytes().to_vec());
    (replies.len() == requests).then(|| replies.into_iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_metadata_of_all_begins_with_is_a_whole_text() {
        assert_eq!(common_prefix(&[r#"{"a":"äx"#, r#"{"a":"äy"#, r#"{"a":"ä"#]), r#"{"a":"ä"#);
        assert_eq!(common_prefix(&[r#"{"a":"ä"#, r#"{"a":"ö"#]), r#"{"a":""#);
        assert_eq!([common_prefix(&["one"]), common_prefix(&["one", ""]), common_prefix(&[])], ["one", "", ""]);
    }

    #[test]
    fn replies_are_split_as_they_were_joined_and_only_into_their_number() {
        let replies = [Some(br#"{"a":[1,null]}"#.as_slice()), None, Some(b"[]")];
        let joined = join_replies(&replies);
        assert_eq!(split_reply(&joined, 3), Some(replies.map(|reply| reply.map(<[u8]>::to_vec)).to_vec()));
        for requests in [0, 2, 4] {
            assert_eq!(split_reply(&joined, requests), None, "{requests}");
        }
        assert_eq!(split_reply(b"{}", 0), None);
    }
}
