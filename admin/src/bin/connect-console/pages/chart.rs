//! Bar charts, drawn on the server as SVG.

use crate::format::number;
use maud::{Markup, html};

/// Size of the plot in user units.
const WIDTH: i64 = 720;
const HEIGHT: i64 = 160;
/// Space below the bars for their names, and above for their values.
const BELOW: i64 = 20;
const ABOVE: i64 = 18;

/// A bar: its name, such as a month, and its value.
pub(crate) type Bar<'a> = (&'a str, i64);

/// Bars with their values, and a line at `limit`. The title describes the chart to those who do not see it; a table beside
/// it has the numbers.
pub(crate) fn bars(title: &str, bars: &[Bar<'_>], limit: Option<i64>) -> Markup {
    let largest = bars.iter().map(|(_, value)| *value).chain(limit).max().unwrap_or_default().max(1);
    let count = i64::try_from(bars.len()).unwrap_or(1).max(1);
    let step = WIDTH / count;
    let height = |value: i64| {
        i64::try_from(i128::from(value) * i128::from(HEIGHT) / i128::from(largest)).unwrap_or(HEIGHT)
    };
    let bottom = ABOVE + HEIGHT;
    html! {
        svg.chart role="img" aria-label=(title) viewBox={ "0 0 " (WIDTH) " " (bottom + BELOW) } {
            line x1="0" x2=(WIDTH) y1=(bottom) y2=(bottom) {}
            @for (index, (name, value)) in (0..).zip(bars) {
                @let x = index * step;
                @let middle = x + step / 2;
                rect x=(x + step / 6) y=(bottom - height(*value)) width=(step * 2 / 3) height=(height(*value)) {}
                text x=(middle) y=(bottom - height(*value) - 5) text-anchor="middle" { (number(*value)) }
                text x=(middle) y=(bottom + 15) text-anchor="middle" { (name) }
            }
            @if let Some(limit) = limit {
                @let y = bottom - height(limit);
                line.quota x1="0" x2=(WIDTH) y1=(y) y2=(y) {}
            }
        }
    }
}

/// Heights of a chart of minutes: above its axis, and below.
const UP: i64 = 90;
const DOWN: i64 = 45;

/// Counts of the last minutes, the current one last.
pub(crate) struct Minutes<'a> {
    /// Names the chart on its page; lower-case letters.
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    /// What was wanted, drawn above the axis: its name and the counts.
    pub(crate) up: (&'a str, &'a [i64]),
    /// What was not, drawn below the axis, so that it differs by more than its color.
    pub(crate) down: Option<(&'a str, &'a [i64])>,
}

/// A bar for each minute. The title and the sums, which are also written below, describe the chart to those who do not see it.
pub(crate) fn minutes(chart: &Minutes<'_>, sums: &str) -> Markup {
    let Minutes { id, title, up: (_, up), down } = *chart;
    let down = down.map_or(&[][..], |(_, counts)| counts);
    let most_up = up.iter().copied().max().unwrap_or_default();
    let most_down = down.iter().copied().max().unwrap_or_default();
    // One scale for both, in which neither leaves its part.
    let largest = most_up.max(most_down.saturating_mul(UP / DOWN)).max(1);
    let height = |count: i64| {
        let exact = i64::try_from(i128::from(count) * i128::from(UP) / i128::from(largest)).unwrap_or(UP);
        if count > 0 { exact.max(1) } else { 0 }
    };
    let step = WIDTH / i64::try_from(up.len().max(1)).unwrap_or(1);
    let (axis, depth) = (ABOVE + UP, if down.is_empty() { 0 } else { DOWN });
    let end = axis + depth;
    html! {
        svg.chart role="img" aria-labelledby={ (id) "-title " (id) "-about" } viewBox={ "0 0 " (WIDTH) " " (end + BELOW) } {
            title id={ (id) "-title" } { (title) }
            desc id={ (id) "-about" } { (sums) }
            @for (index, count) in (0..).zip(up).filter(|(_, count)| **count > 0) {
                rect x=(index * step + 1) y=(axis - height(*count)) width=(step - 2) height=(height(*count)) {}
            }
            @for (index, count) in (0..).zip(down).filter(|(_, count)| **count > 0) {
                rect.down x=(index * step + 1) y=(axis) width=(step - 2) height=(height(*count)) {}
            }
            line x1="0" x2=(WIDTH) y1=(axis) y2=(axis) {}
            text x="0" y=(ABOVE - 6) { "most in a minute: " (number(most_up)) }
            @if most_down > 0 { text x=(WIDTH) y=(ABOVE - 6) text-anchor="end" { "below the line: " (number(most_down)) } }
            text x="0" y=(end + 15) { "an hour ago" }
            text x=(WIDTH) y=(end + 15) text-anchor="end" { "now" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_drawn_above_and_below_the_line_and_described() {
        let (up, down) = ([0, 40, 80], [20, 0, 0]);
        let chart = Minutes {
            id: "requests",
            title: "Requests",
            up: ("accepted", &up),
            down: Some(("refused", &down)),
        };
        let drawn = minutes(&chart, "120 accepted and 20 refused").into_string();
        for part in [
            "aria-labelledby=\"requests-title requests-about\"",
            "<title id=\"requests-title\">Requests</title>",
            "<desc id=\"requests-about\">120 accepted and 20 refused</desc>",
            "height=\"45\"",
            "height=\"90\"",
            "class=\"down\" x=\"1\" y=\"108\"",
            "most in a minute: 80",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert_eq!(drawn.matches("<rect").count(), 3, "no bar for nothing: {drawn}");
    }

    #[test]
    fn extreme_counts_stay_within_the_chart() {
        for (up, down) in [([i64::MAX, 1], [i64::MAX, 0]), ([0, 0], [7, 1]), ([0, 0], [0, 0])] {
            let chart = Minutes { id: "a", title: "A", up: ("u", &up), down: Some(("d", &down)) };
            let drawn = minutes(&chart, "").into_string();
            for height in drawn.split("height=\"").skip(1) {
                let height: i64 = height.split('"').next().unwrap().parse().unwrap();
                assert!((1..=UP).contains(&height), "{drawn}");
            }
        }
    }

    #[test]
    fn bars_are_scaled_to_the_largest_value_or_limit() {
        let drawn = bars("Writes", &[("2026-01", 50), ("2026-02", 100)], Some(200)).into_string();
        assert!(drawn.contains("height=\"40\"") && drawn.contains("height=\"80\""), "{drawn}");
        assert!(drawn.contains("class=\"quota\""), "{drawn}");
        let extreme = bars("Writes", &[("2026-01", i64::MAX)], None).into_string();
        assert!(extreme.contains(&format!("height=\"{HEIGHT}\"")), "{extreme}");
        assert!(bars("Writes", &[], None).into_string().contains("<svg"));
    }
}
