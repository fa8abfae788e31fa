//! Charts of the last hour, day or week, with their numbers as a table.

use super::chart::{self, Chart};
use crate::context::View;
use crate::failure::Failure;
use crate::fields::with_query;
use crate::format::{clock_time, data_table, number};
use admin::activity::{ActivityMinute, QueueLengths, last_hours};
use chrono::{DateTime, Utc};
use maud::{Markup, html};

/// A count of a minute or hour, by its name.
type Series = (&'static str, fn(&ActivityMinute) -> i64);

/// A chart: its id, its title, what was wanted, and what was not.
const CHARTS: [(&str, &str, Series, &[Series]); 3] = [
    ("requests", "Requests", ("accepted", |minute| minute.accepted), NOT_ACCEPTED),
    ("events", "Events", ("applied", |minute| minute.applied), &[("failed", |minute| minute.failed)]),
    ("attempts", "Attempts at webhooks", DELIVERED, UNDELIVERED),
];
const NOT_ACCEPTED: &[Series] =
    &[("refused", |minute| minute.refused), ("got 500 or 503", |minute| minute.server_errors)];
const DELIVERED: Series = ("delivered", |minute| minute.delivered);
const UNDELIVERED: &[Series] = &[("failed", |minute| minute.undelivered)];

/// What is shown: its name in the URL and for people, its hours of which each has a bar, and after how many bars there is a tick. The
/// last hour has a bar for each minute.
struct Range {
    name: &'static str,
    text: &'static str,
    hours: i32,
    ticks: usize,
}

const HOUR: Range = Range { name: "1h", text: "hour", hours: 0, ticks: 15 };
const DAY: Range = Range { name: "24h", text: "24 hours", hours: 24, ticks: 6 };
const WEEK: Range = Range { name: "7d", text: "7 days", hours: 168, ticks: 48 };

/// The charts of requests, events and webhooks in the range that the query names; of the queues too, whose last hour is known.
pub(super) async fn charts(
    view: &View<'_>, hour: &[ActivityMinute], queues: &[QueueLengths],
) -> Result<Markup, Failure> {
    let chosen = view.request.query.get("range");
    let range = [DAY, WEEK].into_iter().find(|range| range.name == chosen).unwrap_or(HOUR);
    let tenant = view.tenant_if_any().map(|tenant| tenant.id);
    let loaded = if range.hours > 0 { last_hours(view.client(), tenant, range.hours).await? } else { Vec::new() };
    let (counts, queues) = if range.hours > 0 { (loaded.as_slice(), &[][..]) } else { (hour, queues) };
    let path = view.request.path.as_str();
    Ok(html! {
        h2 #activity { "The last " (range.text) }
        p.ranges {
            @for one in [HOUR, DAY, WEEK] {
                a href={ (with_query(path, &[("range", one.name)])) "#activity" } aria-current=[(one.name == range.name).then_some("true")] {
                    (if one.hours == 0 { "1 hour" } else { one.text })
                }
            }
        }
        (shown(&range, counts, queues))
    })
}

fn shown(range: &Range, counts: &[ActivityMinute], queues: &[QueueLengths]) -> Markup {
    html! {
        div.charts {
            @for (id, title, up, down) in CHARTS { (counted(range, counts, (id, title), up, down)) }
            @for queue in queues { (length(range, counts, queue)) }
        }
        details {
            summary { (if range.hours == 0 { "The numbers of each minute" } else { "The numbers of each hour" }) }
            (table(range, counts, queues))
        }
        p.soft { "Counted by the programs, every few seconds. Requests are those that named a key. Those that got 500 or 503 are kept of at most 16 minutes for each error code, so that of a longer outage only the end is shown. An attempt at a webhook that gets a 2xx status is delivered." }
    }
}

/// The attempts on the deliveries of one subscription in the last 24 hours.
pub(super) fn attempts(counts: &[ActivityMinute]) -> Markup {
    counted(&DAY, counts, ("attempts", "The last 24 hours"), DELIVERED, UNDELIVERED)
}

/// The name of a period, and the ticks below some of them.
fn period(range: &Range, at: DateTime<Utc>) -> Markup {
    clock_time(at, if range.hours > 24 { ("hour", "%a %-d %b, %H:%M UTC") } else { ("time", "%H:%M UTC") })
}

fn periods(range: &Range, counts: &[ActivityMinute]) -> Vec<(Markup, Option<Markup>)> {
    let form = if range.hours > 24 { ("day", "%a %-d") } else { ("time", "%H:%M") };
    let tick = |index: usize, at| {
        let is_last = index + 1 == counts.len();
        let is_tick = index.is_multiple_of(range.ticks);
        if is_last { Some(html! { "now" }) } else { is_tick.then(|| clock_time(at, form)) }
    };
    counts.iter().enumerate().map(|(index, one)| (period(range, one.at), tick(index, one.at))).collect()
}

fn counted(range: &Range, counts: &[ActivityMinute], (id, title): (&str, &str), up: Series, down: &[Series]) -> Markup {
    let of = |(name, count): &Series| (*name, counts.iter().map(count).collect::<Vec<i64>>());
    let (wanted, others) = (of(&up), down.iter().map(of).collect::<Vec<_>>());
    let sum = |counts: &[i64]| number(counts.iter().fold(0, |sum, count| sum.saturating_add(*count)));
    let mut sums: Vec<String> =
        std::iter::once(&wanted).chain(&others).map(|(name, counts)| format!("{} {name}", sum(counts))).collect();
    let last = sums.pop().unwrap_or_default();
    let about = format!("{} and {last} in the last {}", sums.join(", "), range.text);
    let others: Vec<(&str, &[i64])> = others.iter().map(|(name, counts)| (*name, counts.as_slice())).collect();
    let (periods, up, down) = (periods(range, counts), (wanted.0, wanted.1.as_slice()), Some(others.as_slice()));
    chart::draw(&Chart { id, title, periods: &periods, up, down, limit: None, are_levels: false }, &about)
}

fn length(range: &Range, counts: &[ActivityMinute], queue: &QueueLengths) -> Markup {
    let name = queue.queue.as_str();
    let title = format!("Waiting in {name}");
    let now = number(queue.most.last().copied().unwrap_or_default());
    let most = number(queue.most.iter().copied().max().unwrap_or_default());
    let about = format!("{now} messages in the current minute, {most} at the most");
    let (periods, up) = (periods(range, counts), ("waiting", queue.most.as_slice()));
    let chart = Chart { id: name, title: &title, periods: &periods, up, down: None, limit: None, are_levels: true };
    html! { div { (chart::draw(&chart, &about)) p.soft { (about) } } }
}

fn table(range: &Range, counts: &[ActivityMinute], queues: &[QueueLengths]) -> Markup {
    let mut headings = vec![if range.hours == 0 { "Minute" } else { "Hour" }.to_owned()];
    for (_, title, up, down) in CHARTS {
        headings.extend(std::iter::once(&up).chain(down).map(|(name, _)| format!("#{title} {name}")));
    }
    headings.extend(queues.iter().map(|queue| format!("#Waiting in {}", queue.queue.as_str())));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    data_table(
        &headings,
        &html! {
            @for (index, one) in counts.iter().enumerate().rev() {
                tr {
                    th scope="row" { (period(range, one.at)) }
                    @for (_, _, up, down) in CHARTS {
                        @for (_, count) in std::iter::once(&up).chain(down) { td.number { (number(count(one))) } }
                    }
                    @for queue in queues { td.number { (number(queue.most.get(index).copied().unwrap_or_default())) } }
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;
    use common::broker::Queue;

    #[test]
    fn each_number_is_in_a_chart_and_in_the_table() {
        let at = DateTime::UNIX_EPOCH;
        let hour: Vec<ActivityMinute> = (0..60)
            .map(|minute| ActivityMinute {
                at: at + TimeDelta::minutes(minute),
                applied: 2,
                refused: 1,
                server_errors: 3,
                ..Default::default()
            })
            .collect();
        let queues = [QueueLengths { queue: Queue::Crm, most: (0..60).collect() }];
        let shown = shown(&HOUR, &hour, &queues).into_string();
        assert!(shown.contains("120 applied and 0 failed in the last hour"), "{shown}");
        assert!(shown.contains("0 accepted, 60 refused and 180 got 500 or 503 in the last hour"), "{shown}");
        assert!(shown.contains("59 messages in the current minute, 59 at the most"), "{shown}");
        assert_eq!(shown.matches("<svg").count(), 4);
        assert!(shown.contains("Requests got 500 or 503</th>") && shown.contains("0 accepted, 1 refused, 3 got 500"));
        assert_eq!(shown.matches("<tr>").count(), 61, "a row for each minute");
        assert!(shown.find("00:59 UTC</time></th>") < shown.find("00:58 UTC</time></th>"), "the newest first");
        assert_eq!(shown.matches("<span>now</span>").count(), 4, "a tick of each chart");
    }
}
