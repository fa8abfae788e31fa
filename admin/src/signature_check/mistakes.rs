//! The texts and secrets that common mistakes lead to, each with one mistake.

use super::{CheckedRequest, body};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use common::signature::Scheme;

/// A text that may have been signed.
pub(super) struct SignedText {
    /// Completes "the MAC was computed over".
    pub(super) what: String,
    pub(super) bytes: Vec<u8>,
}

/// The text that a signature of the request must cover.
pub(super) fn expected(request: &CheckedRequest, timestamp: &str, body: &str) -> Vec<u8> {
    let CheckedRequest { method, target, .. } = request;
    match request.scheme() {
        Scheme::V1 => format!("{timestamp}.{body}"),
        Scheme::V2 => format!("{timestamp}.{method}.{target}.{body}"),
    }
    .into_bytes()
}

/// The texts that were signed by mistake, each once, without the expected one.
pub(super) fn texts(request: &CheckedRequest, timestamp: &str, body: &str) -> Vec<SignedText> {
    let CheckedRequest { method, target, .. } = request;
    let right = expected(request, timestamp, body);
    let with = |changed: CheckedRequest| expected(&changed, timestamp, body);
    let mut texts: Vec<SignedText> = Vec::new();
    let mut add = |what: &str, bytes: Vec<u8>| {
        if bytes != right && !texts.iter().any(|known| known.bytes == bytes) {
            texts.push(SignedText { what: what.to_owned(), bytes });
        }
    };
    for form in body::other_forms(body) {
        add(form.what, expected(request, timestamp, &form.text));
    }
    match request.scheme() {
        Scheme::V1 => {
            add(
                "the text for v2 (t.METHOD.path.body), which only records routes use",
                format!("{timestamp}.{method}.{target}.{body}").into_bytes(),
            );
        }
        Scheme::V2 => {
            add(
                "the text for v1 (t.body), which only the events route uses",
                format!("{timestamp}.{body}").into_bytes(),
            );
            add(
                "the text with the method in lower case",
                with(CheckedRequest { method: method.to_lowercase(), ..request.clone() }),
            );
            add(
                "the text with the path without its query",
                with(CheckedRequest { target: request.path().to_owned(), ..request.clone() }),
            );
            add("the text with a path below /api/v1/crm/connect", below_base(request, timestamp, body));
            add("the text without the method", format!("{timestamp}.{target}.{body}").into_bytes());
        }
    }
    add("the body alone: t and a dot must precede it", body.as_bytes().to_vec());
    add("the text without t", right.split_first_dot());
    add("the text without the dot after t", [timestamp.as_bytes(), &right.split_first_dot()].concat());
    add("the text with t=", [b"t=".as_slice(), &right].concat());
    let millis = format!("{timestamp}000");
    add("the text with t in milliseconds", expected(request, &millis, body));
    if let Ok(seconds) = timestamp.parse::<i64>() {
        for other in [seconds.saturating_sub(1), seconds.saturating_add(1)] {
            let what = "the text with a t one second away from that of the header: read the clock once";
            add(what, expected(request, &other.to_string(), body));
        }
    }
    texts
}

trait SplitFirstDot {
    /// What follows the timestamp and its dot.
    fn split_first_dot(&self) -> Vec<u8>;
}

impl SplitFirstDot for Vec<u8> {
    fn split_first_dot(&self) -> Vec<u8> {
        let dot = self.iter().position(|byte| *byte == b'.').map_or(0, |dot| dot + 1);
        self[dot..].to_vec()
    }
}

fn below_base(request: &CheckedRequest, timestamp: &str, body: &str) -> Vec<u8> {
    let below = request.target.strip_prefix("/api/v1/crm/connect").unwrap_or(&request.target);
    let CheckedRequest { method, .. } = request;
    format!("{timestamp}.{method}.{below}.{body}").into_bytes()
}

pub(super) fn secrets(secret: &str, prefix: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mut secrets = vec![
        ("the secret with a line break at its end", format!("{secret}\n").into_bytes()),
        ("the secret in quotation marks", format!("\"{secret}\"").into_bytes()),
        ("the secret in upper case", secret.to_uppercase().into_bytes()),
        ("the prefix of the key instead of its secret", prefix.as_bytes().to_vec()),
        ("an empty secret", Vec::new()),
    ];
    if let Some((_, rest)) = secret.split_once('_') {
        secrets.push(("the secret without what precedes its underscore", rest.as_bytes().to_vec()));
        if let Ok(decoded) = URL_SAFE_NO_PAD.decode(rest) {
            secrets.push(("the secret decoded from base64: its characters are the secret", decoded));
        }
    }
    secrets
}
