use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

fn verify(secret: &str, header: &str, body: &[u8], now: u64) -> bool {
    let values = |name| {
        let elements = header.split(',').filter_map(|element| element.split_once('='));
        elements.filter(move |element| element.0 == name).map(|element| element.1)
    };
    let mut times = values("t");
    let (Some(t), None) = (times.next(), times.next()) else { return false };
    let is_time = (1..=12).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_digit());
    if !is_time || !t.parse::<u64>().is_ok_and(|t| now.abs_diff(t) <= 300) {
        return false;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    for part in [t.as_bytes(), b".", body] {
        mac.update(part);
    }
    values("v1").any(|hex| hex::decode(hex).is_ok_and(|sent| mac.clone().verify_slice(&sent).is_ok()))
}
