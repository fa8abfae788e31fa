//! The query string of a look-up.

use crate::refusal::Refusal;
use common::event::Faults;
use common::model::text;

const ENCODING: &str = "must be percent-encoded UTF-8 without NUL";

/// The values of the parameters `names`, in their order, and what is wrong with them; empty values count as absent. Other
/// parameters are ignored.
pub(crate) fn parse_parameters<const N: usize>(query: &str, names: [&str; N]) -> ([Option<String>; N], Faults) {
    let (mut values, mut faults) = ([const { None }; N], Faults::default());
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(name) = decode(name) else {
            faults.push("query", format!("the name of a parameter {ENCODING}"));
            continue;
        };
        let Some(place) = names.iter().position(|known| *known == name) else { continue };
        // A raw `+` is a blank, which no address has: `ana+goa@example.com` would find nobody, or somebody else.
        if name == "email" && value.contains('+') {
            faults.push(name, "must be an email address, in which + is written as %2B");
        } else if let Some(value) = decode(value) {
            if values[place].replace(value).is_some() {
                faults.push(name, "must be given once");
            }
        } else {
            faults.push(name, ENCODING);
        }
    }
    (values.map(|value| value.filter(|value| !text::is_blank(value))), faults)
}

/// 400 with all faults, if there are any.
pub(crate) fn refuse(faults: &Faults) -> Result<(), Refusal> {
    if faults.is_empty() { Ok(()) } else { Err(Refusal::InvalidRequest(faults.to_string())) }
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

    #[test]
    fn all_faults_of_a_query_are_found() {
        let faults = |query: &str| parse_parameters(query, ["email", "externalId"]).1;
        for query in [
            "email=%", "email=%4", "email=%zz", "email=%+1", "email=%ff", "email=%00", "%ff=1", "email=a&email=a",
            "email=ana+goa@example.com", "%65mail=ana+goa@example.com",
        ] {
            assert!(refuse(&faults(query)).is_err(), "{query}");
        }
        let all = "externalId: must be percent-encoded UTF-8 without NUL; email: must be given once";
        assert_eq!(faults("email=a&externalId=%zz&email=b&other=1").to_string(), all);
    }
}
