//! Verifies a webhook: `cargo run -p tests --example verify-webhook SIGNATURE [NOW] <BODY`
//!
//! SIGNATURE is the header `X-Connect-Signature` and BODY the body, byte by byte, as received; NOW is the clock, in
//! seconds since 1970, for trying it out. Says `verified`, or why not with exit code 1. Needs the crates hex, hmac and sha2.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::env::{args_os, var_os};
use std::io::{self, Read};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

const USAGE: &str = "usage: verify-webhook SIGNATURE [NOW] <BODY, with CONNECT_WEBHOOK_SECRET set";
/// Largest difference between clock and signature, in seconds, in both directions.
const TOLERANCE: u64 = 300;

fn main() -> io::Result<ExitCode> {
    // An argument that is not UTF-8 has no digits and is refused below.
    let mut arguments = args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let (signature, now) = (arguments.next(), arguments.next().map_or_else(clock, |now| digits(&now)));
    let secret = var_os("CONNECT_WEBHOOK_SECRET").unwrap_or_default();
    let (Some(signature), Some(now), false) = (&signature, now, secret.is_empty()) else {
        let checks = [
            ("SIGNATURE", signature.is_some()),
            ("NOW", now.is_some()),
            ("CONNECT_WEBHOOK_SECRET", !secret.is_empty()),
        ];
        let wrong: Vec<&str> =
            checks.into_iter().filter(|(_, is_right)| !is_right).map(|(name, _)| name).collect();
        eprintln!("{USAGE}; missing or wrong: {}", wrong.join(" "));
        return Ok(ExitCode::from(2));
    };

    let mut body = Vec::new();
    io::stdin().read_to_end(&mut body)?;
    match verify(secret.as_encoded_bytes(), signature, &body, now) {
        // Now the body may be read. The same eventId can come more than once.
        Ok(()) => {
            println!("verified");
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            eprintln!("refused: {why}");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn clock() -> Option<u64> {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Parses seconds since 1970.
fn digits(text: &str) -> Option<u64> {
    let is_number = (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Checks a webhook; the error says why it must be refused.
fn verify(secret: &[u8], signature: &str, body: &[u8], now: u64) -> Result<(), &'static str> {
    // While the secret is rotated there are two `v1`. Unknown elements are ignored.
    let values = |name| {
        let elements = signature.split(',').filter_map(|element| element.split_once('='));
        elements.filter(move |element| element.0 == name).map(|element| element.1)
    };
    let mut times = values("t");
    let (Some(time), None) = (times.next(), times.next()) else { return Err("no time") };
    if digits(time).ok_or("no time")?.abs_diff(now) > TOLERANCE {
        return Err("signed too long ago, or the clock is wrong");
    }
    let mut expected = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| "no secret")?;
    for part in [time.as_bytes(), b".", body] {
        expected.update(part);
    }
    let mut macs = values("v1").filter_map(|mac| hex::decode(mac).ok());
    // Compares in constant time, which does not reveal where they differ.
    let is_signed = macs.any(|mac| expected.clone().verify_slice(&mac).is_ok());
    if is_signed { Ok(()) } else { Err("signed with another secret, or changed on its way") }
}
