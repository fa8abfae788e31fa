//! Times, numbers and names as people read them.

use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use maud::{Markup, html};

/// A time relative to now. The exact time stands in the tooltip, and for programs in `datetime`.
pub(crate) fn time(at: DateTime<Utc>) -> Markup {
    html! {
        time datetime=(clock::to_text(at)) title=(exact(at)) { (relative(at, clock::now())) }
    }
}

/// A time that an operation returned as RFC 3339 text.
pub(crate) fn time_text(text: &str) -> Markup {
    DateTime::parse_from_rfc3339(text).map_or_else(|_| html! { (text) }, |at| time(at.with_timezone(&Utc)))
}

/// A time, or a word for none.
pub(crate) fn time_or(text: Option<&str>, none: &str) -> Markup {
    text.map_or_else(|| html! { span.soft { (none) } }, time_text)
}

fn exact(at: DateTime<Utc>) -> String {
    at.format("%-d %B %Y, %H:%M:%S UTC").to_string()
}

/// Such as `3 minutes ago` or `in 2 hours`.
pub(crate) fn relative(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let (distance, is_past) = if at > now { (at - now, false) } else { (now - at, true) };
    let Some(text) = distance_text(distance) else { return "just now".to_owned() };
    if is_past { format!("{text} ago") } else { format!("in {text}") }
}

/// A distance in its largest unit; `None` below ten seconds.
fn distance_text(distance: TimeDelta) -> Option<String> {
    let seconds = distance.num_seconds();
    let (count, unit) = match seconds {
        ..10 => return None,
        10..60 => (seconds, "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        86_400..5_184_000 => (seconds / 86_400, "day"),
        5_184_000..63_072_000 => (seconds / 2_592_000, "month"),
        63_072_000.. => (seconds / 31_536_000, "year"),
    };
    Some(format!("{count} {unit}{}", if count == 1 { "" } else { "s" }))
}

/// A number with thin spaces between thousands.
pub(crate) fn number(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    if value < 0 { format!("\u{2212}{text}") } else { text }
}

/// Digits from which on a number is masked like a phone number.
const PHONE_DIGITS: usize = 7;

/// A contact address that viewers do not see in full: `a***@example.com`, or the last two digits of a phone number.
pub(crate) fn masked(contact: &str) -> String {
    match contact.split_once('@') {
        Some((name, domain)) => format!("{}***@{domain}", name.chars().take(1).collect::<String>()),
        None => {
            let count = contact.chars().count();
            format!("***{}", contact.chars().skip(count.saturating_sub(2)).collect::<String>())
        }
    }
}

/// A text that partners wrote, such as the title of an enquiry, which may be named after an email or a phone number, with these
/// masked.
pub(crate) fn without_contacts(text: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut numbers: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        if is_number(word) {
            numbers.push(word);
            continue;
        }
        shown.extend(number_or_masked(&mut numbers));
        shown.push(if word.contains('@') { masked(word) } else { word.to_owned() });
    }
    shown.extend(number_or_masked(&mut numbers));
    shown.join(" ")
}

/// Whether a word may be a part of a phone number.
fn is_number(word: &str) -> bool {
    let is_part = |c: char| c.is_numeric() || "+-()./".contains(c);
    word.chars().any(char::is_numeric) && word.chars().all(is_part)
}

/// The words that were collected, masked if they have as many digits as a phone number.
fn number_or_masked(words: &mut Vec<&str>) -> Option<String> {
    let text = std::mem::take(words).join(" ");
    let digits = text.chars().filter(|c| c.is_numeric()).count();
    let text = if digits >= PHONE_DIGITS { masked(&text) } else { text };
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_partners_show_no_contacts() {
        for (text, shown) in [
            ("Enquiry from ana@example.com", "Enquiry from a***@example.com"),
            ("Enquiry from ०७१२३४५६७८", "Enquiry from ***७८"),
            ("Call +44 20 7946 0018 soon", "Call ***18 soon"),
            ("(020)7946-0018", "***18"),
            ("Ten days in Kerala, 2 adults", "Ten days in Kerala, 2 adults"),
            ("Goa 2026", "Goa 2026"),
        ] {
            assert_eq!(without_contacts(text), shown);
        }
    }

    #[test]
    fn times_are_told_in_their_largest_unit() {
        let now = DateTime::from_timestamp(1_767_225_600, 0).unwrap();
        let told = |seconds| relative(now - TimeDelta::seconds(seconds), now);
        for (seconds, text) in [
            (0, "just now"),
            (59, "59 seconds ago"),
            (60, "1 minute ago"),
            (7_200, "2 hours ago"),
            (86_400 * 59, "59 days ago"),
            (86_400 * 60, "2 months ago"),
            (86_400 * 730, "2 years ago"),
            (-180, "in 3 minutes"),
        ] {
            assert_eq!(told(seconds), text);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(number(0), "0");
        assert_eq!(number(1_234_567), "1\u{2009}234\u{2009}567");
        assert_eq!(number(-1_000), "\u{2212}1\u{2009}000");
    }

    #[test]
    fn contacts_are_masked() {
        assert_eq!(masked("ana@example.com"), "a***@example.com");
        assert_eq!(masked("+44 20 7946 0018"), "***18");
        assert_eq!(masked("7"), "***7");
    }
}
