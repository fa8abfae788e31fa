//! Request and webhook signatures (specification: Authentication; D2). Pure: the caller brings the clock.

mod diagnosis;
mod webhook;

pub use diagnosis::{SentMac, malformation, skew};
pub use webhook::{sign_standard_webhook, sign_webhook, verify_webhook};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

/// How far a timestamp may lie from the clock, in seconds, both ways, inclusive.
pub const TOLERANCE_SECONDS: i64 = 300;

/// The scheme of a signature; each is refused on the other's routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Events route and webhooks: `<t>.<body>`.
    V1,
    /// Records routes: `<t>.<METHOD>.<path with query>.<body>`.
    V2,
}

impl Scheme {
    const fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

/// The content that a signature covers.
#[derive(Clone, Copy, Debug)]
pub enum Signed<'a> {
    /// `v1`: the raw body.
    Body(&'a [u8]),
    /// `v2`: the request as sent.
    Request {
        /// Upper case.
        method: &'a str,
        /// The request target exactly as sent, with its query.
        target: &'a str,
        /// Raw body, empty for a GET.
        body: &'a [u8],
    },
}

impl Signed<'_> {
    const fn scheme(&self) -> Scheme {
        match self {
            Self::Body(_) => Scheme::V1,
            Self::Request { .. } => Scheme::V2,
        }
    }
}

/// A parsed signature header, which is not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    scheme: Scheme,
    timestamp: i64,
    digits: String,
    mac: [u8; 32],
}

/// Why a signature was refused. Callers are not told the reason.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SignatureError {
    /// Not `t=<digits>,<v1|v2>=<64 hex>`.
    #[error("malformed")]
    Malformed,
    /// The scheme of the other routes.
    #[error("wrong scheme")]
    WrongScheme,
    /// Outside ±300 s.
    #[error("stale")]
    Stale,
    /// The MAC does not match.
    #[error("mismatch")]
    Mismatch,
}

impl Signature {
    /// Parses exactly `t=<digits>,<v1|v2>=<64 hex>`, with hex digits of either case.
    pub fn parse(header: &str) -> Result<Self, SignatureError> {
        Self::parse_parts(header).ok_or(SignatureError::Malformed)
    }

    fn parse_parts(header: &str) -> Option<Self> {
        let (digits, rest) = header.strip_prefix("t=")?.split_once(',')?;
        let (scheme, hex) = rest.split_once('=')?;
        let scheme = match scheme {
            "v1" => Scheme::V1,
            "v2" => Scheme::V2,
            _ => return None,
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let timestamp = is_number.then(|| digits.parse().ok()).flatten()?;
        let mut mac = [0; 32];
        hex::decode_to_slice(hex, &mut mac).ok()?;
        Some(Self { scheme, timestamp, digits: digits.to_owned(), mac })
    }

    /// Seconds since the epoch at which it was signed.
    pub const fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The decoded MAC, which replay protection stores instead of the header's text (D2).
    pub const fn mac(&self) -> &[u8; 32] {
        &self.mac
    }

    /// Checks scheme and freshness at `now`, seconds since the epoch.
    pub const fn check_fresh(&self, scheme: Scheme, now: i64) -> Result<(), SignatureError> {
        if !matches!((self.scheme, scheme), (Scheme::V1, Scheme::V1) | (Scheme::V2, Scheme::V2)) {
            return Err(SignatureError::WrongScheme);
        }
        if now.abs_diff(self.timestamp) > TOLERANCE_SECONDS.unsigned_abs() {
            return Err(SignatureError::Stale);
        }
        Ok(())
    }

    /// Compares the MAC in constant time.
    pub fn check_mac(&self, secret: &[u8], signed: Signed<'_>) -> Result<(), SignatureError> {
        keyed(secret, &self.digits, signed).verify_slice(&self.mac).map_err(|_| SignatureError::Mismatch)
    }
}

/// Whether `mac` is the HMAC-SHA256 of `text` under `secret`; compares in constant time. For the signature check, which
/// finds out by trial which text was signed. No function returns the MAC of a text that somebody else chooses.
pub fn is_mac_of(mac: &[u8; 32], secret: &[u8], text: &[u8]) -> bool {
    let mut keyed = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    keyed.update(text);
    keyed.verify_slice(mac).is_ok()
}

/// The header of a signature made at `timestamp`, seconds since the epoch.
pub fn sign(secret: &[u8], timestamp: i64, signed: Signed<'_>) -> String {
    let mac = keyed(secret, &timestamp.to_string(), signed).finalize().into_bytes();
    format!("t={timestamp},{}={}", signed.scheme().name(), hex::encode(mac))
}

/// The MAC over the signed text. `timestamp` is its text as sent, including leading zeros; of Standard Webhooks behind the id.
fn keyed(secret: &[u8], timestamp: &str, signed: Signed<'_>) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(timestamp.as_bytes());
    let parts: &[&[u8]] = match &signed {
        Signed::Body(body) => &[body],
        Signed::Request { method, target, body } => &[method.as_bytes(), target.as_bytes(), body],
    };
    for part in parts {
        mac.update(b".");
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn verify(secret: &str, case: &Value) -> Result<(), SignatureError> {
        let text = |field: &str| case[field].as_str().unwrap();
        let body = text("body").as_bytes();
        let (scheme, signed) = match text("route") {
            "v1" => (Scheme::V1, Signed::Body(body)),
            _ => (Scheme::V2, Signed::Request { method: text("method"), target: text("path"), body }),
        };
        let signature = Signature::parse(text("header"))?;
        signature.check_fresh(scheme, case["now"].as_i64().unwrap())?;
        signature.check_mac(secret.as_bytes(), signed)?;
        // What verifies is what we would have signed, but for the case of its digits.
        assert_eq!(sign(secret.as_bytes(), signature.timestamp(), signed), text("header").to_lowercase());
        Ok(())
    }

    #[test]
    fn every_vector_has_the_expected_result() {
        let vectors: Value = serde_json::from_str(include_str!("../../tests/vectors/signatures.json")).unwrap();
        let cases = vectors["cases"].as_array().unwrap();
        for case in cases {
            let verdict = verify(vectors["secret"].as_str().unwrap(), case);
            assert_eq!(Some(verdict.is_ok()), case["valid"].as_bool(), "{}: {verdict:?}", case["why"]);
        }
        assert!(cases.len() >= 22);
    }
}
