use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The value of X-Connect-Signature; `t` is the time in seconds since 1970.
fn signature(secret: &str, t: u64, method: &str, path: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length is accepted");
    mac.update(format!("{t}.").as_bytes());
    let is_events = path == "/api/v1/crm/connect/events";
    if !is_events {
        mac.update(format!("{method}.{path}.").as_bytes());
    }
    mac.update(body);
    format!("t={t},{}={}", if is_events { "v1" } else { "v2" }, hex::encode(mac.finalize().into_bytes()))
}
