//! The MAC of messages between the programs, computed as SECURITY.md describes it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use lapin::BasicProperties;
use lapin::types::AMQPValue;
use sha2::Sha256;

pub(crate) const MAC_HEADER: &str = "x-connect-mac";

/// The properties with the MAC of a message of `queue`, such as `connect.events`.
pub(crate) fn with_mac(master_key: &str, queue: &str, body: &[u8], properties: BasicProperties) -> BasicProperties {
    let master = STANDARD.decode(master_key).expect("base64");
    let key = hmac(&master).chain_update(format!("connect/message/v1/{queue}")).chain_update([1]);
    let mut mac = hmac(&key.finalize().into_bytes());
    let mut headers = properties.headers().clone().unwrap_or_default();
    let meta = match headers.inner().get("x-connect-meta") {
        Some(AMQPValue::LongString(meta)) => Some(meta.as_bytes()),
        _ => None,
    };
    let ids = [properties.message_id(), properties.correlation_id()];
    let [message_id, correlation_id] = ids.map(|id| id.as_ref().map(|id| id.as_str().as_bytes()));
    for field in [message_id, correlation_id, meta] {
        match field {
            None => mac.update(&[0]),
            Some(field) => {
                mac.update(&[1]);
                mac.update(&(field.len() as u64).to_be_bytes());
                mac.update(field);
            }
        }
    }
    let mac = mac.chain_update(body).finalize().into_bytes();
    headers.insert(MAC_HEADER.into(), AMQPValue::LongString(format!("v1={}", hex::encode(mac)).into()));
    properties.with_headers(headers)
}

fn hmac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}
