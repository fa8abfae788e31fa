//! Charts of the last hour, with their numbers as a table.

use super::chart::{self, Minutes};
use crate::format::number;
use admin::overview::{ActivityMinute, QueueLengths};
use maud::{Markup, html};

/// A count of a minute, by its name.
type Series = (&'static str, fn(&ActivityMinute) -> i64);

/// A chart: its id, its title, what was wanted, and what was not.
const CHARTS: [(&str, &str, Series, Series); 3] = [
    ("requests", "Requests", ("accepted", |minute| minute.accepted), ("refused", |minute| minute.refused)),
    ("events", "Events", ("applied", |minute| minute.applied), ("failed", |minute| minute.failed)),
    (
        "attempts",
        "Attempts at webhooks",
        ("delivered", |minute| minute.delivered),
        ("failed", |minute| minute.undelivered),
    ),
];

/// The charts of requests, events and webhooks, and of the queues if there are any.
pub(super) fn charts(hour: &[ActivityMinute], queues: &[QueueLengths]) -> Markup {
    html! {
        h2 { "The last hour" }
        div.charts {
            @for (id, title, up, down) in CHARTS { (counts(hour, (id, title), up, down)) }
            @for queue in queues { (length(queue)) }
        }
        details {
            summary { "The numbers of each minute" }
            (table(hour, queues))
        }
        p.soft { "Counted by the programs, every few seconds. Accepted and refused are requests that named a key; an attempt at a webhook that gets a 2xx status is delivered." }
    }
}

fn counts(hour: &[ActivityMinute], (id, title): (&str, &str), up: Series, down: Series) -> Markup {
    let of = |(_, count): Series| hour.iter().map(count).collect::<Vec<_>>();
    let (wanted, others) = (of(up), of(down));
    let sum = |counts: &[i64]| number(counts.iter().fold(0, |sum, count| sum.saturating_add(*count)));
    let sums = format!("{} {} and {} {} in the last hour", sum(&wanted), up.0, sum(&others), down.0);
    let minutes = Minutes { id, title, up: (up.0, &wanted), down: Some((down.0, &others)) };
    html! { div { h3 { (title) } (chart::minutes(&minutes, &sums)) p.soft { (sums) } } }
}

fn length(queue: &QueueLengths) -> Markup {
    let name = queue.queue.as_str();
    let title = format!("Waiting in {name}");
    let now = number(queue.most.last().copied().unwrap_or_default());
    let most = number(queue.most.iter().copied().max().unwrap_or_default());
    let sums = format!("{now} messages in the current minute, {most} at the most");
    let minutes = Minutes { id: name, title: &title, up: ("waiting", &queue.most), down: None };
    html! { div { h3 { (title) } (chart::minutes(&minutes, &sums)) p.soft { (sums) } } }
}

fn table(hour: &[ActivityMinute], queues: &[QueueLengths]) -> Markup {
    html! {
        div.scroll role="group" aria-label="Table" tabindex="0" { table {
            thead { tr {
                th scope="col" { "Minute, UTC" }
                @for (_, title, up, down) in CHARTS {
                    th.number scope="col" { (title) " " (up.0) } th.number scope="col" { (title) " " (down.0) }
                }
                @for queue in queues { th.number scope="col" { "Waiting in " (queue.queue.as_str()) } }
            } }
            tbody {
                @for (index, minute) in hour.iter().enumerate().rev() {
                    tr {
                        th scope="row" { (minute.at.format("%H:%M")) }
                        @for (_, _, up, down) in CHARTS {
                            td.number { (number((up.1)(minute))) } td.number { (number((down.1)(minute))) }
                        }
                        @for queue in queues { td.number { (number(queue.most.get(index).copied().unwrap_or_default())) } }
                    }
                }
            }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{DateTime, TimeDelta};
    use common::broker::Queue;

    #[test]
    fn each_number_is_in_a_chart_and_in_the_table() {
        let at = DateTime::UNIX_EPOCH;
        let hour: Vec<ActivityMinute> = (0..60)
            .map(|minute| ActivityMinute {
                at: at + TimeDelta::minutes(minute),
                applied: 2,
                refused: 1,
                ..Default::default()
            })
            .collect();
        let queues = [QueueLengths { queue: Queue::Crm, most: (0..60).collect() }];
        let shown = charts(&hour, &queues).into_string();
        assert!(shown.contains("120 applied and 0 failed in the last hour"), "{shown}");
        assert!(shown.contains("0 accepted and 60 refused in the last hour"), "{shown}");
        assert!(shown.contains("59 messages in the current minute, 59 at the most"), "{shown}");
        assert_eq!(shown.matches("<svg").count(), 4);
        assert_eq!(shown.matches("<tr>").count(), 61, "a row for each minute");
        assert!(shown.find("00:59") < shown.find("00:58"), "the newest first");
    }
}
