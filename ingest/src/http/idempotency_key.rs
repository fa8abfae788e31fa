//! The `Idempotency-Key` of records POSTs (specification: Headers on records routes; D3, D17).

use crate::refusal::Refusal;
use hyper::HeaderMap;

const HEADER: &str = "idempotency-key";

/// 1 to 200 printable ASCII characters (specification: Headers on records routes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdempotencyKey(String);

impl IdempotencyKey {
    pub(crate) const MAX_LEN: usize = 200;

    /// The key of a POST. 400 `idempotency_key_required` when it is missing or empty, 400 `invalid_request` when it is
    /// repeated or malformed.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Self, Refusal> {
        let invalid = |fault: &str| Refusal::InvalidRequest(format!("Idempotency-Key: {fault}"));
        let mut values = headers.get_all(HEADER).iter();
        let value = values.next().ok_or(Refusal::IdempotencyKeyRequired)?;
        if values.next().is_some() {
            return Err(invalid("must be given once"));
        }
        if value.as_bytes().trim_ascii().is_empty() {
            return Err(Refusal::IdempotencyKeyRequired);
        }
        value
            .to_str()
            .ok()
            .and_then(Self::parse)
            .ok_or_else(|| invalid("must have 1 to 200 printable ASCII characters"))
    }

    /// `None` when the text is not a valid key.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let fits = (1..=Self::MAX_LEN).contains(&text.len());
        let printable = text.bytes().all(|b| (0x20..=0x7e).contains(&b));
        (fits && printable).then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    #[test]
    fn a_post_has_exactly_one_valid_key() {
        let read = |lines: &[&[u8]]| {
            let line =
                |line: &&[u8]| (HeaderName::from_static(HEADER), HeaderValue::from_bytes(line).unwrap());
            IdempotencyKey::from_headers(&lines.iter().map(line).collect()).map(|key| key.0)
        };
        assert_eq!(read(&[b"k 1"]), Ok("k 1".to_owned()));
        let absent: [&[&[u8]]; 3] = [&[], &[b""], &[b" \t"]];
        for none in absent {
            assert_eq!(read(none), Err(Refusal::IdempotencyKeyRequired));
        }
        let unfit: [&[&[u8]]; 4] = [&[b"k", b"k"], &[b"a\tb"], &["é".as_bytes()], &[&[b'k'; 201]]];
        for wrong in unfit {
            assert!(matches!(read(wrong), Err(Refusal::InvalidRequest(_))), "{wrong:?}");
        }
    }

    #[test]
    fn a_key_has_1_to_200_printable_characters() {
        assert!(IdempotencyKey::parse("a b~").is_some() && IdempotencyKey::parse(&"k".repeat(200)).is_some());
        for wrong in ["", "a\tb", "a\u{7f}", "é", &"k".repeat(201)] {
            assert_eq!(IdempotencyKey::parse(wrong), None);
        }
    }
}
