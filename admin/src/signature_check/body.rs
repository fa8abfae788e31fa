//! The forms in which a body may have been signed or sent.

use std::borrow::Cow;
use std::fmt::Write as _;

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
