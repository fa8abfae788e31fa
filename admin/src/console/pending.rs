//! A sign-in that waits for the identity provider, or for the form of a person whom a proxy names. Pure, but for the random token
//! of a new one.
//!
//! Nothing is stored of it: what it needs is derived from a random token in a cookie of the browser (or in its form), its expiry,
//! and the master key. So anybody may begin as many as they like, and only the browser that has begun one can complete it.

use crate::{Result, secrets};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use common::sealed::{MasterKey, MasterKeys, Secret};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// How long the person may take at the provider.
pub const PENDING_LIFETIME: TimeDelta = TimeDelta::minutes(10);
/// The purpose of the key that is derived from the master key.
const PURPOSE: &str = "connect/console-sign-in/v1";
/// Longest text of a cookie that is looked at.
const COOKIE_MAX: usize = 100;

/// A sign-in that waits for the identity provider, or for its form.
pub struct PendingSignIn {
    /// The text of the browser's cookie, or the form's id: expiry and token.
    pub cookie: String,
    /// When it expires.
    pub expires_at: DateTime<Utc>,
    /// Names it at the provider, which sends it back through the browser.
    pub state: String,
    /// The provider puts it into the ID token.
    pub nonce: String,
    /// Proves to the provider that the code is redeemed by who asked for it (PKCE).
    pub verifier: String,
    /// The token of the session that it begins: a repeated callback or form of the browser leads to the same one.
    pub session: Secret,
}

impl PendingSignIn {
    /// A sign-in that begins at `now` and must be completed within [`PENDING_LIFETIME`].
    pub fn begin(keys: &MasterKeys, now: DateTime<Utc>) -> Result<Self> {
        let expires_at = now + PENDING_LIFETIME;
        let cookie = format!("{}.{}", expires_at.timestamp(), secrets::new_secret("")?.reveal());
        Ok(Self::derive(&keys.current, cookie, expires_at))
    }

    /// Restores the sign-in of a browser's `cookie` if `state`, which the provider has sent back, belongs to it; `None` if it has
    /// expired, or if another browser has begun it.
    pub fn resume(keys: &MasterKeys, cookie: &str, state: &str, now: DateTime<Utc>) -> Option<Self> {
        if cookie.len() > COOKIE_MAX {
            return None;
        }
        let (seconds, _) = cookie.split_once('.')?;
        let expires_at = DateTime::from_timestamp(seconds.parse().ok()?, 0).filter(|expiry| now < *expiry)?;
        let state = URL_SAFE_NO_PAD.decode(state).ok()?;
        // After a rotation of the master key, sign-ins that were begun before it can be completed.
        let key = std::iter::once(&keys.current)
            .chain(&keys.previous)
            .find(|key| mac(key, "state", cookie).verify_slice(&state).is_ok())?;
        Some(Self::derive(key, cookie.to_owned(), expires_at))
    }

    fn derive(key: &MasterKey, cookie: String, expires_at: DateTime<Utc>) -> Self {
        let text = |what| URL_SAFE_NO_PAD.encode(mac(key, what, &cookie).finalize().into_bytes());
        let session = Secret::new(format!("cn_{}", text("session")));
        Self { expires_at, state: text("state"), nonce: text("nonce"), verifier: text("verifier"), session, cookie }
    }
}

fn mac(key: &MasterKey, what: &str, cookie: &str) -> Hmac<Sha256> {
    let key = key.derive(PURPOSE);
    let mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
    mac.chain_update(what).chain_update(":").chain_update(cookie)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(current: u8, previous: Option<u8>) -> MasterKeys {
        let key = |byte| {
            let text = base64::engine::general_purpose::STANDARD.encode([byte; 32]);
            MasterKey::parse(&text).unwrap()
        };
        MasterKeys { current: key(current), previous: previous.map(key) }
    }

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_777_629_600, 0).unwrap()
    }

    #[test]
    fn the_browser_that_began_a_sign_in_can_complete_it() {
        let begun = PendingSignIn::begin(&keys(1, None), now()).unwrap();
        let resumed = PendingSignIn::resume(&keys(1, None), &begun.cookie, &begun.state, now()).unwrap();
        assert_eq!((&resumed.nonce, &resumed.verifier), (&begun.nonce, &begun.verifier));
        assert_eq!(resumed.session, begun.session);
        assert_eq!(resumed.expires_at, now() + PENDING_LIFETIME);
        let texts = [&begun.state, &begun.nonce, &begun.verifier];
        assert!(texts.iter().all(|text| text.len() == 43 && !begun.cookie.contains(*text)));
        assert!(begun.state != begun.nonce && begun.nonce != begun.verifier);
    }

    #[test]
    fn a_foreign_changed_or_expired_sign_in_is_refused() {
        let keys_now = keys(1, None);
        let begun = PendingSignIn::begin(&keys_now, now()).unwrap();
        let other = PendingSignIn::begin(&keys_now, now()).unwrap();
        let resume = |cookie: &str, state: &str, at| PendingSignIn::resume(&keys_now, cookie, state, at).is_some();
        assert!(resume(&begun.cookie, &begun.state, now() + PENDING_LIFETIME - TimeDelta::seconds(1)));
        assert!(!resume(&begun.cookie, &begun.state, now() + PENDING_LIFETIME), "expired");
        assert!(!resume(&begun.cookie, &other.state, now()), "of another browser");
        let longer = begun.cookie.replacen("1777", "1778", 1);
        assert!(!resume(&longer, &begun.state, now()), "a changed expiry");
        for wrong in ["", ".", "1", "x.y", &"1".repeat(COOKIE_MAX + 1)] {
            assert!(!resume(wrong, &begun.state, now()) && !resume(&begun.cookie, wrong, now()), "{wrong}");
        }
    }

    #[test]
    fn a_sign_in_survives_a_rotation_of_the_master_key() {
        let begun = PendingSignIn::begin(&keys(1, None), now()).unwrap();
        let resume = |keys| PendingSignIn::resume(&keys, &begun.cookie, &begun.state, now());
        assert_eq!(resume(keys(2, Some(1))).map(|one| one.verifier), Some(begun.verifier.clone()));
        assert!(resume(keys(2, None)).is_none());
    }
}
