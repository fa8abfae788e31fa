//! What is checked, as somebody has entered it.

use common::signature::{Scheme, SentMac};

/// The path of the events route.
const EVENTS: &str = "/api/v1/crm/connect/events";

/// A request with its signature, as somebody has entered it.
#[derive(Clone, Debug, Default)]
pub struct CheckedRequest {
    /// Prefix of the key.
    pub key: String,
    /// Such as `POST`.
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// The timestamp; empty if the signature has it.
    pub timestamp: String,
    /// The header, or its MAC only.
    pub signature: String,
    /// The body. A browser sends its lines with CR and LF.
    pub body: String,
}

/// The parts of a signature that was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EnteredSignature<'a> {
    /// The timestamp as text.
    pub(super) timestamp: &'a str,
    /// `v1` or `v2`, if it was entered.
    pub(super) scheme: Option<&'a str>,
    pub(super) mac: Option<SentMac>,
    /// Whether it was entered as a header, whose form can be checked.
    pub(super) is_header: bool,
}

impl CheckedRequest {
    /// The scheme of the route.
    pub(super) fn scheme(&self) -> Scheme {
        if self.path() == EVENTS { Scheme::V1 } else { Scheme::V2 }
    }

    /// The target without its query.
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Reads `t=<digits>,<scheme>=<MAC>`, in any order and with spaces, or a MAC alone.
    pub(super) fn signature(&self) -> EnteredSignature<'_> {
        let sent = self.signature.trim();
        let part = |names: &[&'static str]| {
            sent.split([',', ';', ' ']).filter_map(|part| part.split_once('=')).find_map(|(name, value)| {
                let known = names.iter().find(|known| known.eq_ignore_ascii_case(name))?;
                Some((*known, value.trim()))
            })
        };
        let timestamp = part(&["t"]).map_or_else(|| self.timestamp.trim(), |(_, digits)| digits);
        let named = part(&["v1", "v2", "sha256"]);
        let (scheme, mac) = match named {
            Some((scheme @ ("v1" | "v2"), mac)) => (Some(scheme), mac),
            Some((_, mac)) => (None, mac),
            None => (None, sent),
        };
        let is_header = part(&["t"]).is_some() || scheme.is_some();
        EnteredSignature { timestamp, scheme, mac: SentMac::parse(mac), is_header }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn read(signature: &str, timestamp: &str) -> (String, Option<String>, bool, bool) {
        let request = CheckedRequest {
            signature: signature.to_owned(),
            timestamp: timestamp.to_owned(),
            ..CheckedRequest::default()
        };
        let read = request.signature();
        (read.timestamp.to_owned(), read.scheme.map(str::to_owned), read.mac.is_some(), read.is_header)
    }

    #[test]
    fn a_header_or_a_mac_alone_is_read() {
        let v1 = Some("v1".to_owned());
        assert_eq!(read(&format!("t=5,v1={MAC}"), ""), ("5".to_owned(), v1.clone(), true, true));
        assert_eq!(read(&format!(" v1={MAC}, t=5 "), "7"), ("5".to_owned(), v1, true, true));
        assert_eq!(read(MAC, " 7 "), ("7".to_owned(), None, true, false));
        assert_eq!(read(&format!("sha256={MAC}"), "7"), ("7".to_owned(), None, true, false));
        let base64 = "ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=";
        assert_eq!(read(base64, ""), (String::new(), None, true, false));
        assert_eq!(read("nonsense", ""), (String::new(), None, false, false));
    }
}
