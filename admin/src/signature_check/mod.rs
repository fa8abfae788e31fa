//! Finds out why a signature was refused: the steps of the check, and the first one that fails.
//!
//! A check knows the secrets of the key, but never shows a MAC that it has computed: who may see this page could otherwise
//! have any request signed. It only tells whether the MAC that was entered is that of the expected text, or of one of a fixed
//! list of other texts and secrets that mistakes lead to. To learn anything, one must have made a MAC with the secret before.

mod mistakes;
mod steps;

use crate::refusals::RefusedRequest;
use crate::{Result, store};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::{KeyPrefix, TenantId};
use common::sealed::{MasterKeys, Secret, api_key_binding};
use common::signature::{Scheme, SentMac};
pub use steps::{CheckStep, SignatureReport, Verdict};
use tokio_postgres::Client;

/// Largest body that is checked, in bytes.
pub const BODY_MAX: usize = 256 * 1024;

/// A key with its secrets, for checks only.
pub(crate) struct CheckedKey {
    pub(crate) is_revoked: bool,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) secret: Option<Secret>,
    /// The secret before the last rotation, and until when it is valid.
    pub(crate) old_secret: Option<(Secret, DateTime<Utc>)>,
}

/// Checks a signature with the secrets of the key that the request names, if that is a key of the tenant. `refused` is the
/// refused request that it is about: times and the body are then compared with those that were received.
pub async fn check(
    client: &Client, master_keys: &MasterKeys, tenant: TenantId, request: &CheckedRequest,
    refused: Option<&RefusedRequest>,
) -> Result<SignatureReport> {
    let key = match KeyPrefix::parse(&request.key) {
        Some(prefix) => store::api_keys::sealed(client, prefix.as_str()).await?,
        None => None,
    };
    let binding = api_key_binding(tenant, &request.key);
    let open = |sealed: &[u8]| master_keys.open(sealed, &binding).ok();
    let key = key.filter(|key| key.tenant == tenant).map(|key| CheckedKey {
        is_revoked: key.revoked_at.is_some(),
        expires_at: key.expires_at,
        secret: open(&key.secret),
        old_secret: key.old_secret.and_then(|(sealed, until)| Some((open(&sealed)?, until))),
    });
    let at = refused.map_or_else(clock::now, |refused| refused.at);
    Ok(steps::report(key.as_ref(), request, refused, at))
}

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnteredSignature<'a> {
    pub(crate) timestamp: &'a str,
    /// `v1` or `v2`, if it was entered.
    pub(crate) scheme: Option<&'a str>,
    pub(crate) mac: Option<SentMac>,
    /// Whether it was entered as a header, whose form can be checked.
    pub(crate) is_header: bool,
}

impl CheckedRequest {
    /// The scheme of the route.
    pub(crate) fn scheme(&self) -> Scheme {
        if self.path() == EVENTS { Scheme::V1 } else { Scheme::V2 }
    }

    /// The target without its query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Reads `t=<digits>,<scheme>=<MAC>`, in any order and with spaces, or a MAC alone.
    pub(crate) fn signature(&self) -> EnteredSignature<'_> {
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
