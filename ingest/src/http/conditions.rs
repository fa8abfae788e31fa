//! The conditions of requests (specification: Headers on records routes): `If-Match` of a PATCH and `If-None-Match` of a GET (D19),
//! and `Idempotency-Key` of a POST, which is applied once (D3, D17).

use crate::refusal::Refusal;
use common::write::IfMatch;
use hyper::HeaderMap;
use hyper::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};

/// The longest `If-Match` in bytes, all its lines together. It travels in a message's header, which the broker limits.
pub(crate) const IF_MATCH_MAX: usize = 4 * 1024;
/// The longest `Idempotency-Key` in bytes.
pub(crate) const IDEMPOTENCY_KEY_MAX: usize = 200;

/// An entity tag in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tag<'a> {
    is_weak: bool,
    /// Includes its quotes.
    text: &'a str,
}

/// The value of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Listed<'a> {
    Any,
    Tags(Vec<Tag<'a>>),
}

/// The condition of a PATCH. A weak ETag matches nothing. 400 when the header is malformed.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<IfMatch>, Refusal> {
    let malformed = || Refusal::InvalidRequest("If-Match: must be * or a list of quoted ETags".to_owned());
    let Some(text) = joined(headers, &IF_MATCH).map_err(|NotText| malformed())? else { return Ok(None) };
    if text.len() > IF_MATCH_MAX {
        return Err(Refusal::InvalidRequest(format!("If-Match: must have at most {IF_MATCH_MAX} characters")));
    }
    Ok(Some(match list(&text).ok_or_else(malformed)? {
        Listed::Any => IfMatch::Any,
        Listed::Tags(tags) => {
            IfMatch::OneOf(tags.into_iter().filter(|tag| !tag.is_weak).map(|tag| tag.text.to_owned()).collect())
        }
    }))
}

/// Whether `If-None-Match` names this version. A malformed header is ignored: the caller then gets the body.
pub(crate) fn is_not_modified(headers: &HeaderMap, etag: &str) -> bool {
    let Ok(Some(text)) = joined(headers, &IF_NONE_MATCH) else { return false };
    match list(&text) {
        Some(Listed::Any) => true,
        Some(Listed::Tags(tags)) => tags.iter().any(|tag| tag.text == etag),
        None => false,
    }
}

/// The key of a POST: 1 to 200 printable ASCII characters. 400 `idempotency_key_required` when it is missing or empty,
/// 400 `invalid_request` when it is repeated or malformed.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<String, Refusal> {
    let invalid = |fault: &str| Refusal::InvalidRequest(format!("Idempotency-Key: {fault}"));
    let mut values = headers.get_all("idempotency-key").iter();
    let value = values.next().ok_or(Refusal::IdempotencyKeyRequired)?;
    if values.next().is_some() {
        return Err(invalid("must be given once"));
    }
    if value.as_bytes().trim_ascii().is_empty() {
        return Err(Refusal::IdempotencyKeyRequired);
    }
    let is_printable = |text: &&str| text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let key = value.to_str().ok().filter(|text| text.len() <= IDEMPOTENCY_KEY_MAX).filter(is_printable);
    key.map(str::to_owned).ok_or_else(|| invalid("must have 1 to 200 printable ASCII characters"))
}

/// A header that is not ASCII.
struct NotText;

/// All lines of a header joined to one list; `None` without the header.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, NotText> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str().map_err(|_| NotText));
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    Ok((!lines.is_empty()).then(|| lines.join(",")))
}

/// Reads `*`, or ETags and the commas between them (RFC 9110, 8.8.3 and 13.1).
fn list(text: &str) -> Option<Listed<'_>> {
    let blank = [' ', '\t'];
    if text.trim_matches(blank) == "*" {
        return Some(Listed::Any);
    }
    let mut tags = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() {
        let (is_weak, quoted) = rest.strip_prefix("W/").map_or((false, rest), |quoted| (true, quoted));
        let inner = quoted.strip_prefix('"')?;
        let length = inner.find('"')?;
        if !inner[..length].bytes().all(|b| b.is_ascii_graphic()) {
            return None;
        }
        let (text, after) = quoted.split_at(length + 2);
        tags.push(Tag { is_weak, text });
        let after = after.trim_start_matches(blank);
        if !after.is_empty() && !after.starts_with(',') {
            return None;
        }
        rest = after.trim_start_matches([' ', '\t', ',']);
    }
    (!tags.is_empty()).then_some(Listed::Tags(tags))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn headers(name: &HeaderName, lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (name.clone(), HeaderValue::from_bytes(line.as_bytes()).unwrap())).collect()
    }

    fn matching(lines: &[&str]) -> Result<Option<IfMatch>, Refusal> {
        if_match(&headers(&IF_MATCH, lines))
    }

    fn one_of(etags: &[&str]) -> Result<Option<IfMatch>, Refusal> {
        Ok(Some(IfMatch::OneOf(etags.iter().map(|&etag| etag.to_owned()).collect())))
    }

    #[test]
    fn a_condition_is_a_star_or_a_list_of_quoted_etags() {
        assert_eq!(matching(&[]), Ok(None));
        assert_eq!(matching(&[" * "]), Ok(Some(IfMatch::Any)));
        assert_eq!(matching(&["\"a\""]), one_of(&["\"a\""]));
        assert_eq!(matching(&["\"a,b\" ,,\t\"c\"", "\"d\""]), one_of(&["\"a,b\"", "\"c\"", "\"d\""]));
        assert_eq!(matching(&["\"\""]), one_of(&["\"\""]));
    }

    #[test]
    fn rejects_a_malformed_if_match() {
        let long = format!("\"{}\"", "a".repeat(IF_MATCH_MAX));
        for wrong in ["", ",", "a", "\"a", "a\"", "\"a\" \"b\"", "*, \"a\"", "w/\"a\"", "\"a b\"", "\"é\"", &long] {
            assert!(matches!(matching(&[wrong]), Err(Refusal::InvalidRequest(_))), "{wrong}");
        }
        assert!(matching(&["*", "*"]).is_err());
    }
}
