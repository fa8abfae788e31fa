//! The `Idempotency-Key` of records POSTs (specification: Headers on records routes; D3, D17).

use crate::refusal::Refusal;
use hyper::HeaderMap;

const HEADER: &str = "idempotency-key";

/// Longest key, in bytes.
pub(crate) const MAX_LEN: usize = 200;

/// The key of a POST: 1 to 200 printable ASCII characters. 400 `idempotency_key_required` when it is missing or empty,
/// 400 `invalid_request` when it is repeated or malformed.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<String, Refusal> {
    let invalid = |fault: &str| Refusal::InvalidRequest(format!("Idempotency-Key: {fault}"));
    let mut values = headers.get_all(HEADER).iter();
    let value = values.next().ok_or(Refusal::IdempotencyKeyRequired)?;
    if values.next().is_some() {
        return Err(invalid("must be given once"));
    }
    if value.as_bytes().trim_ascii().is_empty() {
        return Err(Refusal::IdempotencyKeyRequired);
    }
    let is_printable = |text: &&str| text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let key = value.to_str().ok().filter(|text| text.len() <= MAX_LEN).filter(is_printable);
    key.map(str::to_owned).ok_or_else(|| invalid("must have 1 to 200 printable ASCII characters"))
}
