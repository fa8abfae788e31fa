//! The query string of a look-up.

use crate::refusal::Refusal;
use common::model::text;

/// The values of the parameters `names`, in their order; empty ones count as absent. Others are ignored.
///
/// 400 for an invalid escape, for text that is not UTF-8 or contains NUL, and for one of `names` given twice.
pub(crate) fn parse_parameters<const N: usize>(query: &str, names: [&str; N]) -> Result<[Option<String>; N], Refusal> {
    let mut values = [const { None }; N];
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name).ok_or_else(|| malformed("a parameter's name"))?;
        let Some(place) = names.iter().position(|known| *known == name) else { continue };
        // A raw `+` is a blank, which no address has: `ana+goa@example.com` would find nobody, or somebody else.
        if name == "email" && value.contains('+') {
            let text = "email: must be an email address, in which + is written as %2B";
            return Err(Refusal::InvalidRequest(text.to_owned()));
        }
        let value = decode(value).ok_or_else(|| malformed(&name))?;
        if values[place].replace(value).is_some() {
            return Err(Refusal::InvalidRequest(format!("{name}: must be given once")));
        }
    }
    Ok(values.map(|value| value.filter(|value| !text::is_blank(value))))
}

fn malformed(place: &str) -> Refusal {
    Refusal::InvalidRequest(format!("{place}: must be percent-encoded UTF-8 without NUL"))
}

/// Decodes form encoding: `%41` is `A`, `+` is a space.
fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            b'+' => b' ',
            plain => plain,
        });
    }
    String::from_utf8(decoded).ok().filter(|text| !text.contains('\0'))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(query: &str) -> Result<[Option<String>; 2], Refusal> {
        parse_parameters(query, ["email", "externalId"])
    }

    #[test]
    fn malformed_queries_are_refused() {
        for query in [
            "email=%", "email=%4", "email=%zz", "email=%+1", "email=%ff", "email=%00", "%ff=1", "email=a&email=a",
            "email=ana+goa@example.com", "%65mail=ana+goa@example.com",
        ] {
            assert!(matches!(both(query), Err(Refusal::InvalidRequest(_))), "{query}");
        }
    }
}
