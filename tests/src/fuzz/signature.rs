//! The signature header (D2).

use super::ensure;
use super::random::Random;
use common::signature::{Scheme, Signature, Signed, sign};

/// A signed request with its scheme and time.
struct SentSignature<'a> {
    secret: &'a [u8],
    now: i64,
    scheme: Scheme,
    signed: Signed<'a>,
}

impl SentSignature<'_> {
    fn verifies(&self, header: &str) -> bool {
        Signature::parse(header).is_ok_and(|signature| {
            signature.check_fresh(self.scheme, self.now).is_ok()
                && signature.check_mac(self.secret, self.signed).is_ok()
        })
    }
}

/// A signature verifies, unless the header, the secret or a signed byte is changed.
pub(super) fn check(random: &mut Random) -> Result<(), String> {
    let (secret, body) = (random.bytes(40), random.bytes(200));
    let now = i64::try_from(random.next() >> 24).expect("40 bits");
    let (scheme, signed) = if random.once_in(2) {
        (Scheme::V1, Signed::Body(&body))
    } else {
        (Scheme::V2, Signed::Request { method: "POST", target: "/leads?a=b", body: &body })
    };
    let sent = SentSignature { secret: &secret, now, scheme, signed };
    let header = sign(&secret, now, signed);
    ensure(sent.verifies(&header), || format!("{header} does not verify"))?;
    // Either case of the hex digits means the same.
    let (start, hex) = header.rsplit_once('=').ok_or("a header without a MAC")?;
    ensure(sent.verifies(&format!("{start}={}", hex.to_uppercase())), || "upper case is refused".to_owned())?;

    let mut damaged = header.clone().into_bytes();
    random.damage(&mut damaged);
    if let Ok(damaged) = String::from_utf8(damaged) {
        let lower = |(start, hex): (&str, &str)| (start.to_owned(), hex.to_ascii_lowercase());
        let means_the_same = damaged.rsplit_once('=').map(lower) == header.rsplit_once('=').map(lower);
        ensure(sent.verifies(&damaged) == means_the_same, || format!("{damaged:?} for {header:?}"))?;
    }
    let mut other = body.clone();
    random.damage(&mut other);
    if other != body {
        let other = match signed {
            Signed::Body(_) => Signed::Body(&other),
            Signed::Request { method, target, .. } => Signed::Request { method, target, body: &other },
        };
        ensure(!SentSignature { signed: other, ..sent }.verifies(&header), || "another body verifies".to_owned())?;
    }
    Ok(())
}
