//! Finds the peer that `Forwarded` (RFC 7239) and `X-Forwarded-For` name.
//!
//! Each proxy appends the address of its caller to the list. So lists are read from their end, up to the first address that
//! is not a trusted proxy: that peer may have forged everything before it.

use hyper::HeaderMap;
use hyper::header::{FORWARDED, HeaderName, HeaderValue};
use std::net::{IpAddr, SocketAddr};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The peer that the headers of a trusted proxy's request name. `None` when they name none or are malformed, and when
/// they differ: a proxy that sets one of the headers may pass on the other one as its caller has sent it.
pub(super) fn peer(headers: &HeaderMap, is_trusted: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let is_trusted = &is_trusted;
    let named = |name: &HeaderName, address: fn(&[u8]) -> Option<IpAddr>| {
        let is_there = headers.contains_key(name);
        is_there.then(|| last_untrusted(headers.get_all(name).iter().rev(), address, is_trusted))
    };
    match (named(&FORWARDED, forwarded_address), named(&X_FORWARDED_FOR, address)) {
        (Some(one), None) | (None, Some(one)) => one,
        (Some(one), Some(other)) if one == other => one,
        (Some(_), Some(_)) | (None, None) => None,
    }
}

/// The last address of a list that is not trusted, or the first address when all are trusted. `lines` are given from the
/// last to the first. `None` when an element after that address is malformed.
fn last_untrusted<'h>(
    lines: impl Iterator<Item = &'h HeaderValue>, address: fn(&[u8]) -> Option<IpAddr>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let mut found = None;
    for element in lines.flat_map(|line| ElementsFromEnd(Some(line.as_bytes()))) {
        let element = element.trim_ascii();
        // A list may have empty elements (RFC 9110, 5.6.1).
        if element.is_empty() {
            continue;
        }
        let address = address(element)?;
        if !is_trusted(address) {
            return Some(address);
        }
        found = Some(address);
    }
    found
}

/// The elements of a list, separated by commas outside of quoted strings, from the last to the first.
struct ElementsFromEnd<'l>(Option<&'l [u8]>);

impl<'l> Iterator for ElementsFromEnd<'l> {
    type Item = &'l [u8];

    fn next(&mut self) -> Option<&'l [u8]> {
        let list = self.0.take()?;
        let mut is_quoted = false;
        for (place, byte) in list.iter().enumerate().rev() {
            let (before, rest) = list.split_at(place);
            match byte {
                b'"' if !ends_with_escape(before) => is_quoted = !is_quoted,
                b',' if !is_quoted => {
                    self.0 = Some(before);
                    return rest.get(1..);
                }
                _ => {}
            }
        }
        Some(list)
    }
}

/// Whether the next byte is escaped: an odd number of backslashes precedes it.
fn ends_with_escape(before: &[u8]) -> bool {
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The address of an element of `Forwarded`: of its only parameter `for`.
fn forwarded_address(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let (mut is_quoted, mut is_escaped) = (false, false);
    let ends_pair = |byte: &u8| {
        let is_quote = *byte == b'"' && !is_escaped;
        is_quoted ^= is_quote;
        is_escaped = is_quoted && *byte == b'\\' && !is_escaped;
        *byte == b';' && !is_quoted
    };
    for pair in element.split(ends_pair) {
        let Some((name, value)) = split_once(pair.trim_ascii(), b'=') else { continue };
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }
    let value = found?;
    node(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

/// The address of a node (RFC 7239, 6): its port may be obfuscated, such as `_p`, its name may not.
fn node(text: &[u8]) -> Option<IpAddr> {
    let Some(colon) = text.windows(2).position(|pair| pair == b":_") else { return address(text) };
    let (host, port) = (text.get(..colon)?, text.get(colon + 2..)?);
    let is_of_port = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let has_port = !port.is_empty() && port.iter().all(is_of_port);
    // An IPv6 address that a port follows is in brackets.
    let is_host = !host.contains(&b':') || host.starts_with(b"[");
    if has_port && is_host { address(host) } else { None }
}

fn split_once(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == separator)?;
    Some((bytes.get(..place)?, bytes.get(place + 1..)?))
}

/// An address with or without a port; one of IPv6 with or without brackets.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(text).ok()?;
    let address = text.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    address.ok().or_else(bracketed).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, any, prop, proptest};

    /// The peer that these headers name, with 10.0.0.0/8 trusted.
    fn named(headers: &[(&HeaderName, &[u8])]) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let is_trusted = |address: IpAddr| matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 10);
        peer(&map, is_trusted).map(|peer| peer.to_string())
    }

    fn by(name: &HeaderName, lists: &[&str]) -> Option<String> {
        named(&lists.iter().map(|list| (name, list.as_bytes())).collect::<Vec<_>>())
    }

    #[test]
    fn x_forwarded_for_names_the_last_address_that_is_not_a_trusted_proxy() {
        for (lists, expected) in [
            (["192.0.2.1"].as_slice(), Some("192.0.2.1")),
            (&["198.51.100.1, 192.0.2.1"], Some("192.0.2.1")),
            (&["192.0.2.1, 10.0.0.1,10.0.0.2"], Some("192.0.2.1")),
            (&["198.51.100.1", "192.0.2.1, , 10.0.0.1", ""], Some("192.0.2.1")),
            (&["nonsense\", 192.0.2.1"], Some("192.0.2.1")),
            (&["10.0.0.9, 10.0.0.1"], Some("10.0.0.9")),
            (&["192.0.2.1:4711"], Some("192.0.2.1")),
            (&["[2001:db8::1]:4711"], Some("2001:db8::1")),
            (&["[2001:db8::1]"], Some("2001:db8::1")),
            (&["2001:db8::1"], Some("2001:db8::1")),
            (&["::ffff:10.0.0.1"], Some("10.0.0.1")),
            (&[""], None),
            (&["unknown"], None),
            (&["192.0.2.1, nonsense"], None),
            (&["192.0.2.1, nonsense, 10.0.0.1"], None),
            (&["192.0.2.1;x"], None),
        ] {
            assert_eq!(by(&X_FORWARDED_FOR, lists).as_deref(), expected, "{lists:?}");
        }
    }

    #[test]
    fn forwarded_names_it_with_the_parameter_for() {
        for (list, expected) in [
            ("for=192.0.2.1", Some("192.0.2.1")),
            ("For=\"192.0.2.1:80\";proto=http;by=10.0.0.1", Some("192.0.2.1")),
            ("proto=https; for=\"[2001:db8::1]:4711\"", Some("2001:db8::1")),
            ("for=\"192.0.2.1:_p\"", Some("192.0.2.1")),
            ("for=\"[2001:db8::1]:_a.b-c_9\"", Some("2001:db8::1")),
            ("for=198.51.100.1, for=192.0.2.1, for=10.0.0.1", Some("192.0.2.1")),
            ("for=\"unterminated, for=192.0.2.1", Some("192.0.2.1")),
            ("for=\\, for=192.0.2.1", Some("192.0.2.1")),
            ("for=9.9.9.9, for=192.0.2.1;host=\"a\\\"b,c\"", Some("192.0.2.1")),
            ("for=9.9.9.9, for=192.0.2.1;host=\"a\\\\\"", Some("192.0.2.1")),
            ("for=192.0.2.1;host=\"a\\\";for=9.9.9.9;\"", Some("192.0.2.1")),
            ("host=\"a;for=9.9.9.9;\"", None),
            ("for=_hidden", None),
            ("for=\"192.0.2.1:_\"", None),
            ("for=\"192.0.2.1:_p:1\"", None),
            ("for=\"2001:db8::1:_p\"", None),
            ("for=\"_hidden:_p\"", None),
            ("for=unknown, for=10.0.0.1", None),
            ("proto=https", None),
            ("for=192.0.2.1;for=192.0.2.2", None),
            ("for=\"192.0.2.1", None),
            ("192.0.2.1", None),
        ] {
            assert_eq!(by(&FORWARDED, &[list]).as_deref(), expected, "{list}");
        }
    }

    #[test]
    fn of_two_headers_neither_is_believed_unless_they_agree() {
        let both =
            |one: &str, other: &str| named(&[(&FORWARDED, one.as_bytes()), (&X_FORWARDED_FOR, other.as_bytes())]);
        assert_eq!(both("for=192.0.2.1", "198.51.100.1, 192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(both("for=192.0.2.1", "198.51.100.1"), None);
        assert_eq!(both("nonsense", "198.51.100.1"), None);
        assert_eq!(named(&[]), None);
    }

    /// What a header's value may consist of.
    fn header_bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = any::<u8>().prop_filter("a byte of a header", |byte| *byte >= b' ' && *byte != 127);
        prop::collection::vec(byte, 0..60)
    }

    proptest! {
        #[test]
        fn whatever_a_caller_sends_the_address_that_the_proxy_appends_is_named(sent in header_bytes()) {
            let own = [
                (&FORWARDED, b"for=\"[2001:db8::1]:80\";proto=http".as_slice()),
                (&X_FORWARDED_FOR, b"2001:db8::1".as_slice()),
            ];
            for (name, own) in own {
                let in_one_line = [sent.as_slice(), b", ".as_slice(), own].concat();
                assert_eq!(named(&[(name, &in_one_line)]).as_deref(), Some("2001:db8::1"));
                assert_eq!(named(&[(name, &sent), (name, own)]).as_deref(), Some("2001:db8::1"));
                // Without a proxy's entry it may be anything, but is read without a panic.
                drop(named(&[(name, &sent)]));
            }
        }
    }
}
