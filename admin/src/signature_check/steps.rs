//! The steps of a check, in the order of those of ingest (D1).

use super::{CheckedKey, CheckedRequest, EnteredSignature, mistakes};
use crate::refusals::RefusedRequest;
use chrono::{DateTime, Utc};
use common::sealed::Secret;
use common::signature::{Scheme, SentMac, is_mac_of, malformation, skew};
use sha2::{Digest, Sha256};

/// What a step has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As expected.
    Passed,
    /// A reason to refuse the request.
    Failed,
    /// Something that the step needs is missing.
    Skipped,
}

/// A step of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckStep {
    /// What is checked.
    pub name: &'static str,
    /// What was found.
    pub verdict: Verdict,
    /// The same for people. Contains no secret and no MAC.
    pub text: String,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureReport {
    /// All steps, in their order.
    pub steps: Vec<CheckStep>,
    /// The text that must be signed.
    pub to_sign: String,
}

impl SignatureReport {
    /// The first step that fails.
    pub fn first_failure(&self) -> Option<&CheckStep> {
        self.steps.iter().find(|step| step.verdict == Verdict::Failed)
    }
}

/// Checks a request that arrived `at` a time. `key` is a key of the tenant.
pub(super) fn report(
    key: Option<&CheckedKey>, request: &CheckedRequest, refused: Option<&RefusedRequest>, at: DateTime<Utc>,
) -> SignatureReport {
    let signature = request.signature();
    let entered = mistakes::as_entered(&request.body);
    let (body_step, received) = body_step(&entered, refused);
    let body = received.as_deref().unwrap_or(&entered);
    let steps = vec![
        key_step(key, at),
        form_step(request, &signature),
        scheme_step(request, &signature),
        time_step(&signature, at, refused.is_some()),
        body_step,
        mac_step(key, request, &signature, body, at),
    ];
    let to_sign = mistakes::expected(request, signature.timestamp, body);
    SignatureReport { steps, to_sign: String::from_utf8_lossy(&to_sign).into_owned() }
}

fn step(name: &'static str, verdict: Verdict, text: impl Into<String>) -> CheckStep {
    CheckStep { name, verdict, text: text.into() }
}

fn key_step(key: Option<&CheckedKey>, at: DateTime<Utc>) -> CheckStep {
    let (verdict, text) = match key {
        None => (Verdict::Failed, "The agency has no key with this prefix. Compare it with the list of keys."),
        Some(key) if key.is_revoked => (Verdict::Failed, "The key was revoked. Use another one."),
        Some(key) if key.expires_at.is_some_and(|expires| expires <= at) => {
            (Verdict::Failed, "The key had expired. Use another one.")
        }
        Some(_) => (Verdict::Passed, "The agency has this key, and it is active."),
    };
    step("Key", verdict, text)
}

fn form_step(request: &CheckedRequest, signature: &EnteredSignature<'_>) -> CheckStep {
    const NAME: &str = "Form of the signature";
    let sent = request.signature.trim();
    if sent.is_empty() {
        return step(NAME, Verdict::Skipped, "Enter the signature to check it.");
    }
    if matches!(signature.mac, Some(SentMac::Base64(_))) {
        return step(NAME, Verdict::Failed, "The MAC is in base64. Send it as 64 hex digits.");
    }
    if signature.is_header
        && let Some(fault) = malformation(sent)
    {
        let text = format!(
            "The header X-Connect-Signature is malformed: {fault}. Its form is t=<seconds>,v1=<64 hex digits>, or v2= on the records routes."
        );
        return step(NAME, Verdict::Failed, text);
    }
    match signature.mac {
        Some(_) => step(NAME, Verdict::Passed, "The MAC has 64 hex digits."),
        None => step(NAME, Verdict::Failed, "The MAC does not have exactly 64 hex digits."),
    }
}

fn scheme_step(request: &CheckedRequest, signature: &EnteredSignature<'_>) -> CheckStep {
    const NAME: &str = "Scheme";
    let (needed, routes) = match request.scheme() {
        Scheme::V1 => ("v1", "the events route"),
        Scheme::V2 => ("v2", "the records routes"),
    };
    match signature.scheme {
        None => step(NAME, Verdict::Skipped, format!("This route takes {needed}.")),
        Some(sent) if sent == needed => step(NAME, Verdict::Passed, format!("{needed} is right for {routes}.")),
        Some(sent) => step(
            NAME,
            Verdict::Failed,
            format!("{sent} was sent, but {routes} take{} {needed}.", if needed == "v1" { "s" } else { "" }),
        ),
    }
}

fn time_step(signature: &EnteredSignature<'_>, at: DateTime<Utc>, is_recorded: bool) -> CheckStep {
    const NAME: &str = "Timestamp";
    let when = if is_recorded { "when the request arrived" } else { "now" };
    if signature.timestamp.is_empty() {
        return step(NAME, Verdict::Failed, "There is no t. It is the time of signing in seconds since 1970.");
    }
    match signature.timestamp.parse::<i64>() {
        Err(_) => step(NAME, Verdict::Failed, "t is not a number of seconds in digits."),
        Ok(t) => match skew(t, at.timestamp()) {
            Some(skew) => step(NAME, Verdict::Failed, format!("{skew}, compared {when}. At most 300 s are tolerated.")),
            None => step(NAME, Verdict::Passed, format!("t is within 300 s of the clock of Connect, compared {when}.")),
        },
    }
}

/// Compares the body with the one that was received. Also returns the latter, if it is another form of the one that was
/// entered.
fn body_step(entered: &str, refused: Option<&RefusedRequest>) -> (CheckStep, Option<String>) {
    const NAME: &str = "Body";
    let Some(expected) = refused.and_then(|refused| refused.body_sha256.as_deref()) else {
        let text = "Not compared: there is no recorded request with a hash of its body.";
        return (step(NAME, Verdict::Skipped, text), None);
    };
    let is_received = |text: &str| sha256(text) == expected;
    if is_received(entered) {
        return (step(NAME, Verdict::Passed, "This is exactly the body that was received."), None);
    }
    let found = mistakes::other_forms(entered).into_iter().find(|form| is_received(&form.text));
    match found {
        Some(form) => {
            let text = format!(
                "What was received is another form of this body: {}. Sign exactly the bytes that are sent.",
                form.what
            );
            (step(NAME, Verdict::Passed, text), Some(form.text.into_owned()))
        }
        None => {
            let size = refused.map_or(0, |refused| refused.body_bytes);
            let text = format!(
                "This is not the body that was received, which has {size} bytes and another SHA-256; this one has {} bytes. Something has changed it between signing and sending, or it is another request.",
                entered.len()
            );
            (step(NAME, Verdict::Failed, text), None)
        }
    }
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mac_step(
    key: Option<&CheckedKey>, request: &CheckedRequest, signature: &EnteredSignature<'_>, body: &str, at: DateTime<Utc>,
) -> CheckStep {
    const NAME: &str = "MAC";
    let Some(mac) = &signature.mac else {
        return step(NAME, Verdict::Skipped, "There is no MAC to compare.");
    };
    let Some(key) = key else {
        return step(NAME, Verdict::Skipped, "Without a key there is no secret to compare with.");
    };
    let Some(current) = &key.secret else {
        return step(NAME, Verdict::Skipped, "The secret of the key cannot be decrypted. Ask the operator.");
    };
    let right = mistakes::expected(request, signature.timestamp, body);
    let is_of = |secret: &[u8], text: &[u8]| is_mac_of(mac.bytes(), secret, text);
    if is_of(bytes(current), &right) {
        return step(
            NAME,
            Verdict::Passed,
            "The MAC is right: it was computed with the current secret over the expected text.",
        );
    }
    if let Some((old, until)) = &key.old_secret
        && is_of(bytes(old), &right)
    {
        let (verdict, text) = if *until > at {
            (Verdict::Passed, "The MAC is right: it was computed with the old secret, which is still valid.")
        } else {
            (
                Verdict::Failed,
                "The MAC was computed with the old secret, which is no longer valid. Use the current one.",
            )
        };
        return step(NAME, verdict, text);
    }
    if *mac.bytes() == *Sha256::digest(&right) {
        let text = "The MAC is a SHA-256 of the text without a secret. Compute an HMAC-SHA-256 with the secret.";
        return step(NAME, Verdict::Failed, text);
    }
    for secret in [Some(current), key.old_secret.as_ref().map(|(old, _)| old)].into_iter().flatten() {
        let texts = mistakes::texts(request, signature.timestamp, body);
        if let Some(text) = texts.iter().find(|text| is_of(bytes(secret), &text.bytes)) {
            let text = format!("The secret is right, but the MAC was computed over {}.", text.what);
            return step(NAME, Verdict::Failed, text);
        }
        let secrets = mistakes::secrets(secret.reveal(), &request.key);
        if let Some((what, _)) = secrets.iter().find(|(_, secret)| is_of(secret, &right)) {
            return step(NAME, Verdict::Failed, format!("The text is right, but it was signed with {what}."));
        }
    }
    let text = "The MAC was computed with another secret, or over a text that none of the common mistakes explains. Compare the text to sign below with the one that your program signs, byte by byte; if they are the same, the secret is another one.";
    step(NAME, Verdict::Failed, text)
}

fn bytes(secret: &Secret) -> &[u8] {
    secret.reveal().as_bytes()
}

#[cfg(test)]
mod tests;
