//! Verifies a webhook: `cargo run -p tests --example verify-webhook SIGNATURE [NOW] <BODY`
//!
//! SIGNATURE is the header `X-Connect-Signature` and BODY the body, byte by byte, as they came; NOW is the clock, in
//! seconds since 1970, for trying it out. Says `verified`, or why not with exit code 1.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io::Read;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

type Failure = Box<dyn std::error::Error>;

/// Seconds, both ways.
const TOLERANCE: u64 = 300;

#[expect(clippy::disallowed_methods, reason = "this is no setting of a program of Connect's")]
fn main() -> Result<ExitCode, Failure> {
    let secret = std::env::var("CONNECT_WEBHOOK_SECRET")?;
    let mut arguments = std::env::args().skip(1);
    let signature = arguments.next().ok_or("the header X-Connect-Signature?")?;
    let now = match arguments.next() {
        Some(given) => given.parse()?,
        None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body)?;
    match verify(secret.as_bytes(), &signature, &body, now) {
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

/// The error says why the webhook isn't to be believed.
fn verify(secret: &[u8], signature: &str, body: &[u8], now: u64) -> Result<(), &'static str> {
    // While the secret is rotated there are two `v1`. What else there may be one day is passed over.
    let elements = || signature.split(',').filter_map(|element| element.split_once('='));
    let time = elements().find(|(name, _)| *name == "t").map(|(_, time)| time).ok_or("no time")?;
    if !time.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("no time");
    }
    if time.parse::<u64>().map_err(|_| "no time")?.abs_diff(now) > TOLERANCE {
        return Err("signed too long ago, or the clock is wrong");
    }
    let mut expected = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| "no secret")?;
    expected.update(time.as_bytes());
    expected.update(b".");
    expected.update(body);
    let macs = elements().filter(|(name, _)| *name == "v1").filter_map(|(_, mac)| hex::decode(mac).ok());
    // Compares in a time that doesn't depend on where they differ.
    let is_signed = macs.into_iter().any(|mac| expected.clone().verify_slice(&mac).is_ok());
    if is_signed { Ok(()) } else { Err("signed with another secret, or changed on its way") }
}
