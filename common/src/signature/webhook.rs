//! The signature of a webhook (specification: Outbound webhook signature): one `v1`, and while a rotated secret
//! still signs, a second one.

use super::{SignatureError, Signed, TOLERANCE_SECONDS, keyed};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::Mac;

/// Maximum number of digits of a timestamp: enough for 30,000 years.
const DIGITS: usize = 12;

/// The header of a webhook signed at `timestamp`, seconds since the epoch: `t=<timestamp>,v1=<hex>`, with a `v1` for
/// each of `secrets`, in their order. There must be one at least.
pub fn sign_webhook<'a>(secrets: impl IntoIterator<Item = &'a [u8]>, timestamp: i64, body: &[u8]) -> String {
    let mut header = format!("t={timestamp}");
    let digits = header[2..].to_owned();
    for secret in secrets {
        let mac = keyed(secret, &digits, Signed::Body(body)).finalize().into_bytes();
        let mut text = [0; 64];
        hex::encode_to_slice(mac, &mut text).expect("32 bytes are 64 digits");
        header.push_str(",v1=");
        header.push_str(std::str::from_utf8(&text).expect("hex digits"));
    }
    header
}

/// The header `webhook-signature` of a webhook with the id `id` (D46; Standard Webhooks): `v1,<base64>` for each of `secrets`,
/// separated by blanks. Its key are the bytes of which a secret is the base64, after `whsec_`; a secret of another form signs nothing.
pub fn sign_standard_webhook<'a>(
    secrets: impl IntoIterator<Item = &'a str>, id: &str, timestamp: i64, body: &[u8],
) -> String {
    let start = format!("{id}.{timestamp}");
    let keys = secrets.into_iter().filter_map(|secret| STANDARD.decode(secret.strip_prefix("whsec_")?).ok());
    let signed = keys.map(|key| {
        let mac = keyed(&key, &start, Signed::Body(body)).finalize().into_bytes();
        format!("v1,{}", STANDARD.encode(mac))
    });
    signed.collect::<Vec<_>>().join(" ")
}

/// Verifies the header and the raw body as a receiver does, at `now`, seconds since the epoch. The header must have exactly
/// one `t` and a `v1` that verifies; further elements, in any order, are ignored.
pub fn verify_webhook(secret: &[u8], header: &str, body: &[u8], now: i64) -> Result<(), SignatureError> {
    let (digits, macs) = parse_header(header).ok_or(SignatureError::Malformed)?;
    let timestamp: i64 = digits.parse().map_err(|_| SignatureError::Malformed)?;
    if now.abs_diff(timestamp) > TOLERANCE_SECONDS.unsigned_abs() {
        return Err(SignatureError::Stale);
    }
    let mac = keyed(secret, digits, Signed::Body(body));
    // Each comparison takes constant time; the number of elements is not secret.
    let verifies = macs.iter().any(|sent| mac.clone().verify_slice(sent).is_ok());
    if verifies { Ok(()) } else { Err(SignatureError::Mismatch) }
}

/// The timestamp's digits, and all well-formed MACs.
fn parse_header(header: &str) -> Option<(&str, Vec<[u8; 32]>)> {
    let (mut times, mut macs) = (Vec::new(), Vec::new());
    for (name, value) in header.split(',').filter_map(|element| element.split_once('=')) {
        let mut mac = [0; 32];
        match name {
            "t" => times.push(value),
            "v1" if hex::decode_to_slice(value, &mut mac).is_ok() => macs.push(mac),
            _ => {}
        }
    }
    let [digits] = times[..] else { return None };
    let is_number = (1..=DIGITS).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    (is_number && !macs.is_empty()).then_some((digits, macs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// The vectors of that list.
    fn vectors(list: &str) -> Vec<Value> {
        let vectors = include_str!("../../../tests/vectors/webhook-signatures.json");
        serde_json::from_str::<Value>(vectors).unwrap()[list].as_array().unwrap().clone()
    }

    #[test]
    fn signs_the_vectors_header_and_each_secret_verifies_it() {
        let signed = vectors("signed");
        for made in &signed {
            let (body, at) = (made["body"].as_str().unwrap().as_bytes(), made["timestamp"].as_i64().unwrap());
            let secrets = made["secrets"].as_array().unwrap().iter().map(|secret| secret.as_str().unwrap().as_bytes());
            let header = sign_webhook(secrets.clone(), at, body);
            assert_eq!(made["header"], header, "{}", made["why"]);
            for secret in secrets {
                assert_eq!(verify_webhook(secret, &header, body, at), Ok(()), "{}", made["why"]);
            }
        }
        assert!(signed.len() >= 5);
    }

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn secrets_in_base64_sign_as_standard_webhooks_do() {
        let (secret, id) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek");
        let secrets = ["whsec_no-base64", secret, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
        let signed = sign_standard_webhook(secrets, id, 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn every_vector_has_the_expected_result() {
        let cases = vectors("cases");
        for case in &cases {
            let text = |field: &str| case[field].as_str().unwrap();
            let (secret, body) = (text("secret").as_bytes(), text("body").as_bytes());
            let verdict = verify_webhook(secret, text("header"), body, case["now"].as_i64().unwrap());
            assert_eq!(Some(verdict.is_ok()), case["valid"].as_bool(), "{}: {verdict:?}", case["why"]);
        }
        assert!(cases.len() >= 20);
    }
}
