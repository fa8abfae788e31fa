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
