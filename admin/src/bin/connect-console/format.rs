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

/// A table with these headings, which can be scrolled on narrow screens. Columns of numbers have a heading that begins with `#`.
pub(crate) fn data_table(headings: &[&str], rows: &Markup) -> Markup {
    captioned_table("", headings, rows)
}

/// The same with a caption.
pub(crate) fn captioned_table(caption: &str, headings: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll role="group" aria-label="Table" tabindex="0" { table {
            @if !caption.is_empty() { caption { (caption) } }
            thead { tr { @for heading in headings {
                @if let Some(heading) = heading.strip_prefix('#') { th.number scope="col" { (heading) } }
                @else { th scope="col" { (heading) } }
            } } }
            tbody { (rows) }
        } }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
