//! Times, numbers and names as people read them.

use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use maud::{Markup, PreEscaped, html};

/// A time, and how far it is from now. The exact time stands in the tooltip, and for programs in `datetime`. Scripts show the time of the
/// reader's zone.
pub(crate) fn time(at: DateTime<Utc>) -> Markup {
    let now = clock::now();
    let format = if at.date_naive() == now.date_naive() { "%H:%M UTC" } else { "%-d %b %Y, %H:%M UTC" };
    html! {
        time datetime=(clock::to_text(at)) title=(exact(at)) { (at.format(format)) " · " (relative(at, now)) }
    }
}

/// A time of a chart: in UTC as `format` says, and of the reader's zone as scripts tell times of this `kind`.
pub(crate) fn clock_time(at: DateTime<Utc>, (kind, format): (&str, &str)) -> Markup {
    html! { time datetime=(clock::to_text(at)) data-clock=(kind) { (at.format(format)) } }
}

/// A time that an operation returned as RFC 3339 text.
pub(crate) fn time_text(text: &str) -> Markup {
    DateTime::parse_from_rfc3339(text).map_or_else(|_| html! { (text) }, |at| time(at.with_timezone(&Utc)))
}

/// A time, or a word for none.
pub(crate) fn time_or(text: Option<&str>, none: &str) -> Markup {
    text.map_or_else(|| html! { span.soft { (none) } }, time_text)
}

/// A state with its color: `good`, `warn`, `bad` or `soft`.
pub(crate) fn pill(class: &str, state: &str) -> Markup {
    html! { span class={ "pill " (class) } { (state) } }
}

/// JSON with a line for each value, in its order and with its numbers as they are.
pub(crate) fn pretty_json(text: &str) -> String {
    let (mut pretty, mut depth, mut last) = (String::new(), 0_usize, ' ');
    let (mut in_string, mut is_escaped) = (false, false);
    for c in text.chars() {
        if in_string {
            pretty.push(c);
            in_string = is_escaped || c != '"';
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        if c.is_whitespace() {
            continue;
        }
        let (is_end, has_opened) = (matches!(c, '}' | ']'), matches!(last, '{' | '['));
        depth = depth.saturating_sub(usize::from(is_end));
        if (is_end && !has_opened) || (!is_end && (has_opened || last == ',')) {
            pretty.push('\n');
            pretty.push_str(&"  ".repeat(depth));
        }
        depth += usize::from(matches!(c, '{' | '['));
        pretty.push(c);
        if c == ':' {
            pretty.push(' ');
        }
        (in_string, last) = (c == '"', c);
    }
    pretty
}

/// The name of a heading, whether its column has numbers, and whether narrow windows leave it out: marked with `#` and `~` before it.
fn parse_heading(heading: &str) -> (&str, bool, bool) {
    let name = heading.trim_start_matches(['~', '#']);
    let marks = heading.strip_suffix(name).unwrap_or_default();
    (name, marks.contains('#'), marks.contains('~'))
}

/// A table with these headings, which may have marks: `#` for a column of numbers, `~` for one that narrow windows leave out.
pub(crate) fn data_table(headings: &[&str], rows: &Markup) -> Markup {
    captioned_table("", headings, rows)
}

/// The same with a caption. Cells are labeled with their heading, which narrow screens show beside each one.
pub(crate) fn captioned_table(caption: &str, headings: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll role="group" aria-label="Table" tabindex="0" { table {
            @if !caption.is_empty() { caption { (caption) } }
            thead { tr { @for heading in headings {
                @let (name, is_number, is_minor) = parse_heading(heading);
                @if is_number { th.number scope="col" data-minor[is_minor] { (name) } }
                @else { th scope="col" data-minor[is_minor] { (name) } }
            } } }
            tbody { (labeled(headings, &rows.0)) }
        } }
    }
}

/// Rows whose cells have the attribute `data-label`. What they show is escaped, so that `<td` begins a cell.
fn labeled(headings: &[&str], rows: &str) -> Markup {
    let mut labeled = String::with_capacity(rows.len());
    for (number, row) in rows.split("<tr").enumerate() {
        let has_header = row.contains("<th");
        for (cell, part) in row.split("<td").enumerate() {
            let heading = if has_header { headings.get(cell) } else { headings.get(cell.wrapping_sub(1)) };
            match heading.filter(|_| cell > 0) {
                Some(heading) => {
                    let (name, _, is_minor) = parse_heading(heading);
                    let (label, minor) = (html! { (name) }.into_string(), if is_minor { " data-minor" } else { "" });
                    labeled.push_str(&format!("<td data-label=\"{label}\"{minor}"));
                }
                None if cell > 0 => labeled.push_str("<td"),
                None if number > 0 => labeled.push_str("<tr"),
                None => {}
            }
            labeled.push_str(part);
        }
    }
    PreEscaped(labeled)
}

fn exact(at: DateTime<Utc>) -> String {
    at.format("%-d %B %Y, %H:%M:%S UTC").to_string()
}

/// Such as `3 minutes ago` or `in 2 hours`.
pub(crate) fn relative(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let (distance, is_past) = if at > now { (at - now, false) } else { (now - at, true) };
    let Some(text) = distance_text(distance) else {
        // Clocks may differ by less than a second.
        return if distance.num_seconds() > 0 && !is_past { "in a moment" } else { "just now" }.to_owned();
    };
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
            (-5, "in a moment"),
            (-180, "in 3 minutes"),
        ] {
            assert_eq!(told(seconds), text);
        }
    }

    #[test]
    fn json_gets_a_line_for_each_value() {
        let text = r#"{"b":[1.50,{"a":"x:\"{,"}],"e":{},"n":null}"#;
        let pretty =
            "{\n  \"b\": [\n    1.50,\n    {\n      \"a\": \"x:\\\"{,\"\n    }\n  ],\n  \"e\": {},\n  \"n\": null\n}";
        assert_eq!(pretty_json(text), pretty);
    }

    #[test]
    fn cells_are_labeled_with_their_headings() {
        let rows = html! { tr { th { "a" } td { "b" } td.number { "<td" } } tr { th { "c" } td { "d" } } };
        let shown = labeled(&["A", "B&C", "~#D"], &rows.0).into_string();
        assert_eq!(shown.matches("<td data-label=\"B&amp;C\">").count(), 2, "{shown}");
        assert!(
            shown.starts_with("<tr><th>") && shown.contains("<td data-label=\"D\" data-minor class=\"number\">&lt;td<"),
            "{shown}"
        );
        assert!(labeled(&["A"], "<tr><td>x</td></tr>").into_string().contains("<td data-label=\"A\">"));
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(number(0), "0");
        assert_eq!(number(1_234_567), "1\u{2009}234\u{2009}567");
        assert_eq!(number(-1_000), "\u{2212}1\u{2009}000");
    }
}
