//! Numbers of more digits than a double holds. Fields of records get doubles, and events are read from their text: both must read
//! the same value (D38).

use crate::model::{amount, whole};

/// A number that every field refuses for its digits.
const MANY_DIGITS: &str = "1.000000000000001";

/// Replaces each number of a JSON text that would be read otherwise as a double.
pub(super) fn replace_long_numbers(json: &str) -> String {
    let mut replaced = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        let (before, token) = rest.split_at(start);
        let is_text = token.starts_with('"');
        let end = if is_text { text_end(token) } else { token.find(|c| !is_of_number(c)) };
        let (token, behind) = token.split_at(end.unwrap_or(token.len()));
        replaced.push_str(before);
        replaced.push_str(if is_text || is_read_alike(token) { token } else { MANY_DIGITS });
        rest = behind;
    }
    replaced + rest
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || "+-.eE".contains(c)
}

/// The end of the string that a text begins with.
fn text_end(text: &str) -> Option<usize> {
    // So that the first quotation mark does not end it.
    let mut is_escaped = true;
    let last = text.find(|c| {
        let is_last = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_last
    });
    last.map(|last| last + 1)
}

fn is_read_alike(number: &str) -> bool {
    let double = number.parse::<f64>().unwrap_or_default().to_string();
    whole(number) == whole(&double) && amount(number) == amount(&double)
}
