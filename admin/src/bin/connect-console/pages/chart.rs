//! Bar charts, drawn on the server as SVG. Everything that is read stands beside the SVG, as text of the page.

use crate::format::number;
use maud::{Markup, html};

/// Heights above the axis, and below, in user units. A bar has a width of ten units with the space beside it.
const UP: i64 = 200;
const DOWN: i64 = 100;

/// Counts of periods, such as minutes, the current one last.
pub(crate) struct Chart<'a> {
    /// Names the chart on its page; lower-case letters.
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    /// The name of each period, and what stands below some of them.
    pub(crate) periods: &'a [(Markup, Option<Markup>)],
    /// What was wanted, drawn above the axis: its name and the counts.
    pub(crate) up: (&'a str, &'a [i64]),
    /// What was not, drawn below the axis, so that it differs by more than its color; a second one below the first.
    pub(crate) down: Option<&'a [(&'a str, &'a [i64])]>,
    /// A line that is not to be reached.
    pub(crate) limit: Option<i64>,
    /// Whether the counts are those of moments: the legend shows the newest one instead of their sum.
    pub(crate) are_levels: bool,
}

/// The smallest of 1, 2, 5, 10, 15, 20, 25, 30, 50, 100, 150 and so on that is not less.
fn rounded_up(count: i64) -> i64 {
    let small = [1, 2, 5].into_iter();
    let mut all =
        small.chain((0..17).flat_map(|power| [10, 15, 20, 25, 30, 50].map(|digits| digits * 10_i64.pow(power))));
    all.find(|nice| *nice >= count).unwrap_or(i64::MAX)
}

fn sum(counts: &[i64]) -> i64 {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

/// A bar for each period with a legend, ticks, and the values of a period where somebody points at it. `about` describes the chart to
/// those who do not see it.
pub(crate) fn draw(chart: &Chart<'_>, about: &str) -> Markup {
    let Chart { id, title, periods, up, down, limit, are_levels } = *chart;
    let total = |counts: &[i64]| if are_levels { counts.last().copied().unwrap_or_default() } else { sum(counts) };
    let most = |counts: &[i64]| counts.iter().copied().max().unwrap_or_default();
    let of = |counts: &[i64], at: usize| counts.get(at).copied().unwrap_or_default();
    let below: Vec<_> = down
        .unwrap_or_default()
        .iter()
        .enumerate()
        .filter(|(at, (_, counts))| *at == 0 || sum(counts) > 0)
        .map(|(_, one)| *one)
        .collect();
    let down_at = |at: usize| below.iter().fold(0_i64, |sum, (_, counts)| sum.saturating_add(of(counts, at)));
    let most_down = (0..periods.len()).map(down_at).max().unwrap_or_default();
    let most_up = most(up.1).max(limit.unwrap_or_default());
    // One scale for both, in which neither leaves its part. That of the lower part is half of it, and round as well.
    let below_scale = rounded_up(most_down.max(most_up / 2 + most_up % 2));
    let scale = if most_down > 0 { below_scale.saturating_mul(UP / DOWN) } else { rounded_up(most_up.max(2)) };
    let height = |count: i64| {
        let exact = i64::try_from(i128::from(count) * i128::from(UP) / i128::from(scale)).unwrap_or(UP);
        if count > 0 { exact.max(1) } else { 0 }
    };
    let (width, end) =
        (10 * i64::try_from(periods.len()).unwrap_or(1).max(1), UP + if down.is_some() { DOWN } else { 0 });
    let values = |at: usize| {
        let value = |(name, counts): &(&str, &[i64])| format!("{} {name}", number(of(counts, at)));
        std::iter::once(&up).chain(&below).map(value).collect::<Vec<_>>().join(", ")
    };
    let bars_below = |at: usize| {
        let mut bottom = UP;
        let mut bar = |counts: &[i64]| {
            let top = bottom;
            bottom += height(of(counts, at));
            (top, bottom - top)
        };
        below.iter().map(|(_, counts)| bar(counts)).collect::<Vec<_>>()
    };
    html! {
        figure.chart {
            figcaption {
                strong { (title) }
                span.key { (number(total(up.1))) " " (up.0) }
                @for (place, (name, counts)) in below.iter().enumerate() {
                    span.key.down.second[place > 0] { (number(total(counts))) " " (name) }
                }
                @if let Some(limit) = limit { span.key.quota { "limit " (number(limit)) } }
            }
            div.plot.signed[down.is_some()] {
                div.scale aria-hidden="true" {
                    span { (number(scale)) } span { "0" }
                    @if most_down > 0 { span { (number(below_scale)) @if let [(name, _)] = below[..] { " " (name) } } }
                }
                svg role="img" tabindex="0" data-chart aria-labelledby={ (id) "-title " (id) "-about" }
                    viewBox={ "0 0 " (width) " " (end) } preserveAspectRatio="none" {
                    title id={ (id) "-title" } { (title) }
                    desc id={ (id) "-about" } { (about) }
                    @for tick in [0, UP / 2] { line x1="0" x2=(width) y1=(tick) y2=(tick) {} }
                    @for (at, (name, _)) in periods.iter().enumerate() {
                        @let x = 10 * i64::try_from(at).unwrap_or_default();
                        @let above = height(of(up.1, at));
                        g {
                            title { (name) ": " (values(at)) }
                            rect.area x=(x) y="0" width="10" height=(end) {}
                            @if above > 0 { rect x=(x + 1) y=(UP - above) width="8" height=(above) {} }
                            @for (place, (top, height)) in bars_below(at).into_iter().enumerate() {
                                @if height > 0 { rect.down.second[place > 0] x=(x + 1) y=(top) width="8" height=(height) {} }
                            }
                        }
                    }
                    line.axis x1="0" x2=(width) y1=(UP) y2=(UP) {}
                    @if let Some(limit) = limit { line.quota x1="0" x2=(width) y1=(UP - height(limit)) y2=(UP - height(limit)) {} }
                }
                div.ticks.each[periods.iter().all(|(_, tick)| tick.is_some())] { @for tick in periods.iter().filter_map(|(_, tick)| tick.as_ref()) { span { (tick) } } }
            }
            output {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(up: &[i64], down: Option<&[i64]>, limit: Option<i64>) -> String {
        let periods: Vec<_> = (0..up.len()).map(|at| (html! { "10:0" (at) }, Some(html! { (at) }))).collect();
        let down = down.map(|counts| [("refused", counts), ("got 503", &counts[..counts.len() / 2])]);
        let chart = Chart {
            id: "requests",
            title: "Requests",
            periods: &periods,
            up: ("accepted", up),
            down: down.as_ref().map(<[_; 2]>::as_slice),
            limit,
            are_levels: false,
        };
        draw(&chart, "120 accepted and 20 refused").into_string()
    }

    #[test]
    fn periods_are_drawn_above_and_below_the_line_with_their_values() {
        let drawn = drawn(&[0, 40, 80], Some(&[20, 0, 0]), None);
        for part in [
            "aria-labelledby=\"requests-title requests-about\"",
            "<desc id=\"requests-about\">120 accepted and 20 refused</desc>",
            "<title>10:00: 0 accepted, 20 refused, 20 got 503</title>",
            "<span class=\"key down\">20 refused</span><span class=\"key down second\">20 got 503</span>",
            "<span>100</span><span>0</span><span>50</span>",
            "class=\"down\" x=\"1\" y=\"200\" width=\"8\" height=\"40\"",
            "class=\"down second\" x=\"1\" y=\"240\" width=\"8\" height=\"40\"",
            "height=\"160\"",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert_eq!(drawn.matches("<rect").count() - drawn.matches("class=\"area\"").count(), 4, "{drawn}");
    }

    #[test]
    fn extreme_counts_stay_within_the_chart() {
        for (up, down) in [([i64::MAX, 1], [i64::MAX, 0]), ([0, 0], [7, 1]), ([0, 0], [0, 0])] {
            let drawn = drawn(&up, Some(&down), Some(i64::MAX));
            for height in drawn.split(" height=\"").skip(1) {
                let height: i64 = height.split('"').next().unwrap().parse().unwrap();
                assert!((1..=UP + DOWN).contains(&height), "{drawn}");
            }
        }
        assert_eq!([0, 3, 12, 51, 110, i64::MAX].map(rounded_up), [1, 5, 15, 100, 150, i64::MAX]);
        assert!(drawn(&[12], Some(&[0]), None).contains("<span>15</span><span>0</span></div>"));
        assert!(drawn(&[], None, None).contains("<svg"));
    }
}
