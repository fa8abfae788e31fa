//! What is wrong with the form of a signature header, for those who try to produce one.

use super::{Signature, TOLERANCE_SECONDS};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// What is wrong with the form of a signature header; `None` for a well-formed one. The text contains nothing of the header.
pub fn malformation(header: &str) -> Option<&'static str> {
    if Signature::parse(header).is_ok() {
        return None;
    }
    Some(fault(header))
}

fn fault(header: &str) -> &'static str {
    if header.is_empty() {
        return "is empty";
    }
    if header.bytes().any(|byte| byte.is_ascii_whitespace()) {
        return "contains spaces";
    }
    let Some(rest) = header.strip_prefix("t=") else { return "does not begin with t=" };
    let Some((digits, rest)) = rest.split_once(',') else { return "has no comma after t=<seconds>" };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return "t is not a number of seconds in digits";
    }
    if digits.parse::<i64>().is_err() {
        return "t is too large";
    }
    match rest.split_once('=') {
        Some(("v1" | "v2", mac)) => mac_fault(mac),
        Some(_) | None => "has neither v1= nor v2= after the comma",
    }
}

fn mac_fault(mac: &str) -> &'static str {
    if is_base64_of_mac(mac) {
        return "the MAC is in base64, not in hex";
    }
    if mac.len() == 64 {
        return "the MAC has characters that are no hex digits";
    }
    "the MAC does not have exactly 64 hex digits"
}

/// A MAC as somebody has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentMac {
    /// 64 hex digits, as expected.
    Hex([u8; 32]),
    /// The right number of bytes, but in base64.
    Base64([u8; 32]),
}

impl SentMac {
    /// `None` if the text is no MAC in hex or base64.
    pub fn parse(text: &str) -> Option<Self> {
        let mut mac = [0; 32];
        if hex::decode_to_slice(text, &mut mac).is_ok() {
            return Some(Self::Hex(mac));
        }
        let digits = text.trim_end_matches('=');
        let bytes = STANDARD_NO_PAD.decode(digits).or_else(|_| URL_SAFE_NO_PAD.decode(digits)).ok()?;
        bytes.try_into().ok().map(Self::Base64)
    }

    /// The 32 bytes of the MAC, whichever encoding it was sent in.
    pub const fn bytes(&self) -> &[u8; 32] {
        match self {
            Self::Hex(mac) | Self::Base64(mac) => mac,
        }
    }
}

/// Whether a text may be 32 bytes in base64, with or without padding.
fn is_base64_of_mac(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    digits.len() == 43 && text.len() <= 44 && digits.bytes().all(is_digit)
}

/// How far a timestamp is from the clock, in words; `None` within the tolerance.
pub fn skew(timestamp: i64, now: i64) -> Option<String> {
    let seconds = timestamp.saturating_sub(now);
    if seconds.unsigned_abs() <= TOLERANCE_SECONDS.unsigned_abs() {
        return None;
    }
    // A day of tolerance: the clock may be wrong as well.
    let is_in_millis = (timestamp / 1_000).abs_diff(now) < 86_400;
    let direction = if seconds < 0 { "behind" } else { "ahead of" };
    let unit = if is_in_millis { "; it seems to be in milliseconds, and seconds are expected" } else { "" };
    Some(format!("t is {} s {direction} the clock of Connect{unit}", seconds.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    #[test]
    fn each_way_to_malform_a_header_is_named() {
        assert_eq!(malformation(&format!("t=1,v1={MAC}")), None);
        assert_eq!(malformation(&format!("t=1,v2={}", MAC.to_uppercase())), None);
        for (header, expected) in [
            (String::new(), "is empty"),
            (format!("t=1, v1={MAC}"), "contains spaces"),
            (format!("sha256={MAC}"), "does not begin with t="),
            (format!("v1={MAC},t=1"), "does not begin with t="),
            ("t=1".to_owned(), "has no comma after t=<seconds>"),
            (format!("t=now,v1={MAC}"), "t is not a number of seconds in digits"),
            (format!("t=99999999999999999999,v1={MAC}"), "t is too large"),
            (format!("t=1,V1={MAC}"), "has neither v1= nor v2= after the comma"),
            ("t=1,v1=ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=".to_owned(), "the MAC is in base64, not in hex"),
            (format!("t=1,v1={}zz", &MAC[..62]), "the MAC has characters that are no hex digits"),
            (format!("t=1,v1={}", &MAC[..62]), "the MAC does not have exactly 64 hex digits"),
        ] {
            assert_eq!(malformation(&header), Some(expected), "{header}");
        }
    }

    #[test]
    fn a_mac_is_read_from_hex_and_base64() {
        let hex = SentMac::parse(MAC).unwrap();
        let base64 = SentMac::parse("ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=").unwrap();
        assert!(matches!((hex, base64), (SentMac::Hex(_), SentMac::Base64(_))));
        assert_eq!(hex.bytes(), base64.bytes());
        assert_eq!(SentMac::parse("abc"), None);
        assert_eq!(SentMac::parse(&MAC[1..]), None);
    }

    #[test]
    fn a_skew_beyond_the_tolerance_is_told_in_seconds() {
        let now = 1_767_225_600;
        assert_eq!((skew(now + 300, now), skew(now - 300, now)), (None, None));
        assert_eq!(skew(now - 301, now).as_deref(), Some("t is 301 s behind the clock of Connect"));
        assert_eq!(skew(now + 4_000, now).as_deref(), Some("t is 4000 s ahead of the clock of Connect"));
        assert!(skew(now * 1_000, now).is_some_and(|told| told.contains("milliseconds")));
        assert!(skew(i64::MAX, -5).is_some() && skew(i64::MIN, 5).is_some());
    }
}
