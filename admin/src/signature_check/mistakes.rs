//! The forms in which a body may have been signed or sent, and the texts and secrets that common mistakes lead to, each with one mistake.

use super::CheckedRequest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use common::signature::Scheme;
use std::borrow::Cow;
use std::fmt::Write as _;

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
    for form in other_forms(body) {
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
            let below = target.strip_prefix("/api/v1/crm/connect").unwrap_or(target).to_owned();
            add(
                "the text with a path below /api/v1/crm/connect",
                with(CheckedRequest { target: below, ..request.clone() }),
            );
            add("the text without the method", format!("{timestamp}.{target}.{body}").into_bytes());
        }
    }
    add("the body alone: t and a dot must precede it", body.as_bytes().to_vec());
    let without_t = expected(request, "", body)[1..].to_vec();
    add("the text without the dot after t", [timestamp.as_bytes(), &without_t].concat());
    add("the text without t", without_t);
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

/// A body, with what was done to it.
pub(super) struct BodyForm<'b> {
    /// Completes "it was made of".
    pub(super) what: &'static str,
    pub(super) text: Cow<'b, str>,
}

/// The body with line feeds only, which is what most programs send.
pub(super) fn as_entered(body: &str) -> String {
    body.replace("\r\n", "\n")
}

/// The forms that differ from `body`, each of them once.
pub(super) fn other_forms(body: &str) -> Vec<BodyForm<'_>> {
    let trimmed = body.trim_end_matches(['\r', '\n']);
    let compact = without_spaces(body);
    let spaced = with_spaces(&compact);
    let mut forms = vec![
        form("the body without its last line break", trimmed),
        form("the body with a line break at its end", format!("{trimmed}\n")),
        form("the body with CR and LF between its lines", body.replace('\n', "\r\n")),
        form(
            "the body with CR and LF between its lines, and at its end",
            format!("{}\r\n", trimmed.replace('\n', "\r\n")),
        ),
        form("the body without the spaces around it", body.trim()),
        form("the body serialized again, with spaces after commas and colons, as Python does", spaced.clone()),
        form(
            "the body serialized again, as Python does, with escape sequences for letters beyond ASCII",
            escaped(&spaced),
        ),
        form("the body serialized again, without spaces", compact.clone()),
        form("the body serialized again, with escape sequences for letters beyond ASCII", escaped(&compact)),
        form("the body with a byte order mark before it", format!("\u{feff}{body}")),
        form("an empty body", ""),
    ];
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(body) {
        let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
        forms.push(form(
            "the body serialized again, with other spaces or another order of its fields",
            value.to_string(),
        ));
        forms.push(form("the body serialized again, with lines and indentation", pretty));
    }
    let mut seen: Vec<String> = vec![body.to_owned()];
    forms.retain(|form| {
        let is_new = !seen.iter().any(|known| *known == form.text);
        if is_new {
            seen.push(form.text.to_string());
        }
        is_new
    });
    forms
}

fn form<'b>(what: &'static str, text: impl Into<Cow<'b, str>>) -> BodyForm<'b> {
    BodyForm { what, text: text.into() }
}

/// JSON without spaces and line breaks outside of strings. Other text comes out changed, which does no harm.
fn without_spaces(text: &str) -> String {
    let mut compact = String::with_capacity(text.len());
    outside_strings(text, |c, is_outside| {
        if !is_outside || !c.is_ascii_whitespace() {
            compact.push(c);
        }
    });
    compact
}

fn with_spaces(compact: &str) -> String {
    let mut spaced = String::with_capacity(compact.len());
    outside_strings(compact, |c, is_outside| {
        spaced.push(c);
        if is_outside && matches!(c, ',' | ':') {
            spaced.push(' ');
        }
    });
    spaced
}

/// Calls `each` with every character, and whether it is outside of JSON strings.
fn outside_strings(text: &str, mut each: impl FnMut(char, bool)) {
    let (mut is_in_string, mut is_escaped) = (false, false);
    for c in text.chars() {
        each(c, !is_in_string);
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_in_string => is_escaped = true,
            '"' => is_in_string = !is_in_string,
            _ => {}
        }
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(escaped, "\\u{unit:04x}").expect("a string can be written to");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serializing_again_gives_the_texts_of_other_programs() {
        let body = "{ \"a\" : [1, 2],\n \"b\": \"x: y, \\\" é\" }";
        let compact = without_spaces(body);
        assert_eq!(compact, "{\"a\":[1,2],\"b\":\"x: y, \\\" é\"}");
        assert_eq!(with_spaces(&compact), "{\"a\": [1, 2], \"b\": \"x: y, \\\" é\"}");
        assert_eq!(escaped("é😀"), "\\u00e9\\ud83d\\ude00");
        let ascii = other_forms("{\"a\": 1}").into_iter().find(|form| form.text == "{\"a\":1}").unwrap();
        assert_eq!(ascii.what, "the body serialized again, without spaces");
    }

    #[test]
    fn no_form_is_that_of_the_body_or_of_another_one() {
        for body in ["", "{}", "{}\n", "a\nb", "{\"a\": 1}"] {
            let forms = other_forms(body);
            let mut texts: Vec<&str> = forms.iter().map(|form| &*form.text).collect();
            assert!(!texts.contains(&body));
            let count = texts.len();
            texts.sort_unstable();
            texts.dedup();
            assert_eq!(texts.len(), count, "{body:?}");
        }
    }
}
