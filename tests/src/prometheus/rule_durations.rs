//! Shorter durations in rules, so that a test does not wait for an hour.

/// Seconds of a unit.
const UNITS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

/// The rules with every duration divided: `for`, ranges, offsets, and also durations in comments and texts.
pub(super) fn divide_durations(rules: &str, divisor: u64) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
    let mut divided = String::with_capacity(rules.len());
    let mut rest = rules;
    while !rest.is_empty() {
        let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        match milliseconds(word) {
            Some(length) => divided.push_str(&format!("{}ms", length / divisor)),
            None => divided.push_str(word),
        }
        rest = &rest[word.len()..];
        let between = rest.find(is_word).unwrap_or(rest.len());
        divided.push_str(&rest[..between]);
        rest = &rest[between..];
    }
    divided
}

/// The length of a duration such as `5m`.
fn milliseconds(word: &str) -> Option<u64> {
    let (unit, seconds) = UNITS.into_iter().find(|(unit, _)| word.ends_with(unit))?;
    let count: u64 = word.strip_suffix(unit)?.parse().ok()?;
    Some(count * seconds * 1_000)
}
