//! Links in proposals, which travelers open.

use crate::egress::ReceiverUrl;
use crate::event::Faults;
use crate::record::from_string;
use deserr::{Deserr, IntoValue, Value, ValuePointerRef};

/// The address of a hosted proposal: `https://` or `http://`, at most 2,000 characters, with or without a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link(String);

impl Link {
    fn parse(sent: &str) -> Result<Self, &'static str> {
        let sent = sent.trim();
        if sent.contains(['"', '<', '>', '^', '`', '{', '|', '}']) {
            return Err("must have characters that a URL cannot have percent-encoded");
        }
        // A receiver's URL has no fragment, a link may have one, of the characters that a path has.
        ReceiverUrl::parse(&sent.replacen('#', "/", 1))?;
        Ok(Self(sent.to_owned()))
    }

    /// The address as sent, trimmed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deserr<Faults> for Link {
    fn deserialize_from_value<V: IntoValue>(
        value: Value<V>,
        at: ValuePointerRef<'_>,
    ) -> Result<Self, Faults> {
        from_string(value, at, Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_an_http_or_https_url() {
        for link in [
            "https://proposals.example/p/1",
            "http://proposals.example",
            " https://proposals.example/app#/p/1?x=y ",
            "https://proposals.example#p",
        ] {
            assert_eq!(Link::parse(link).map(|link| link.0), Ok(link.trim().to_owned()));
        }
        for text in [
            "",
            "proposals.example/p/1",
            "javascript:alert(1)",
            "ftp://proposals.example/p",
            "https://",
            "https://#p",
            "https://user@proposals.example/",
            "https://proposals.example/a b",
            "https://proposals.example/#<b>",
            "https://proposals.example/#a#b",
        ] {
            assert!(Link::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_link_has_a_limit() {
        let link = |length: usize| format!("https://a.example/{}", "x".repeat(length - 18));
        assert!(Link::parse(&link(2_000)).is_ok());
        assert_eq!(Link::parse(&link(2_001)), Err("must have at most 2000 characters"));
    }
}
