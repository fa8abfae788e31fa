//! The text of `docs/capacity.md`.

use super::load::{DELIVERIES, SHAPE};
use super::{CapacityReport, CurvePoint, UnitCost};
use crate::figures::{median, percent};
use crate::markdown::table;
use crate::options::Options;
use crate::{header, people};

/// Renders the document as Markdown.
pub(super) async fn text(report: &CapacityReport, options: &Options) -> String {
    let sections = [
        introduction(&report.machine, options).await,
        curve(&report.curve),
        saturation(&report.curve),
        costs(&report.events, &report.deliveries),
        cpu(&report.events, &report.deliveries),
        backlog(report),
    ];
    sections.join("\n")
}

async fn introduction(machine: &str, options: &Options) -> String {
    let Options { rounds, seconds, .. } = options;
    let arguments = format!("scale --rounds {rounds} --seconds {seconds}");
    format!(
        "# Capacity\n\n\
         `make bench ARGS=\"{arguments}\"` makes this document and replaces it. Load generator, programs, Postgres\n\
         and RabbitMQ share one machine. Rounds: {rounds}, of {seconds} s each; rates are medians.\n\n\
         - Machine: {}\n\
         - Postgres: {}; RabbitMQ: quorum queues, persistent and confirmed messages\n\
         - Load: {} callers send batches of {} events and wait for each response\n\
         - Events: {}; {} bytes an event\n\
         - People: {}\n\
         - Webhooks: one subscription to all types; one receiver on the same machine responds with 204\n",
        machine,
        header::postgres().await,
        SHAPE.connections,
        SHAPE.batch,
        SHAPE.traffic.composition(),
        SHAPE.traffic.event_bytes(),
        people::COMPOSITION,
    )
}

fn curve(points: &[CurvePoint]) -> String {
    let events = |point: &CurvePoint| median(point.loads.iter().map(|load| load.events_rate));
    let along = |point: &CurvePoint| median(point.loads.iter().map(|load| load.deliveries_rate));
    let burst = |point: &CurvePoint| median(point.bursts.iter().map(|burst| burst.rate));
    let one = &points[0];
    let ratio = |of: &dyn Fn(usize) -> f64| percent(median((0..one.loads.len()).map(of)));
    let row = |point: &CurvePoint| {
        let of_events = |round: usize| point.loads[round].events_rate / one.loads[round].events_rate;
        let of_bursts = |round: usize| point.bursts[round].rate / one.bursts[round].rate;
        let refused: usize = point.loads.iter().map(|load| load.refused).sum();
        vec![
            point.copies.to_string(),
            format!("{:.0}", events(point)),
            ratio(&of_events),
            format!("{:.0}", along(point)),
            format!("{:.0}", burst(point)),
            ratio(&of_bursts),
            refused.to_string(),
        ]
    };
    let head = [
        "ingests / workers / dispatchers",
        "events/s",
        "to one copy",
        "deliveries/s beside",
        "deliveries/s alone",
        "to one copy",
        "batches refused",
    ];
    let rows: Vec<Vec<String>> = points.iter().map(row).collect();
    format!(
        "## Rates by number of copies\n\
         \"Beside\" is the rate of the webhooks that the events cause, until the last one is received. The rate of events limits it.\n\
         \"Alone\" is a burst of {DELIVERIES} outbound events that are in the outbox already. A refused batch got 503.\n\n{}",
        table(&head, &rows)
    )
}

fn saturation(points: &[CurvePoint]) -> String {
    let row = |point: &CurvePoint| {
        let of = |figure: &dyn Fn(&super::LoadResult) -> f64| median(point.loads.iter().map(figure));
        let last = &point.loads[point.loads.len() - 1].saturation;
        let mut row = vec![
            point.copies.to_string(),
            percent(of(&|load| load.saturation.idle)),
            percent(of(&|load| load.saturation.own)),
        ];
        for position in 0..last.programs.len() {
            row.push(format!("{:.2}", of(&|load| load.saturation.programs[position].1)));
        }
        row.push(format!("{:.0}", of(&|load| load.spent.commits / load.spent.seconds)));
        let wait = last.wait.as_ref();
        row.push(wait.map_or_else(|| "none".to_owned(), |(wait, count)| format!("{wait} ({count:.1})")));
        row.push(of(&|load| f64::from(load.saturation.depth)).to_string());
        row.push(last.bound());
        row
    };
    let labels = points[0].loads[0].saturation.programs.iter().map(|(label, _)| *label);
    let mut head = vec!["ingests / workers / dispatchers", "idle", "this run"];
    head.extend(labels);
    head.extend(["commits/s", "most frequent wait of Postgres", "queue depth", "what saturates"]);
    let rows: Vec<Vec<String>> = points.iter().map(row).collect();
    format!(
        "## What saturates\n\
         \"Idle\" and \"this run\" are shares of all processors of the machine; the columns of programs and servers are\n\
         processors in use (1.00 is one processor), with all copies of a program together. A wait of Postgres is followed by\n\
         the mean number of connections that wait for it. Queue depth is the largest number of batches seen in the queue.\n\n{}",
        table(&head, &rows)
    )
}

fn costs(events: &UnitCost, deliveries: &UnitCost) -> String {
    let row = |label: &str, cost: &UnitCost| {
        let count = cost.count as f64;
        vec![
            label.to_owned(),
            cost.count.to_string(),
            format!("{:.0}", cost.rate),
            format!("{:.0}", cost.spent.wal / count),
            format!("{:.0}", cost.spent.disk / count),
        ]
    };
    let head = ["", "measured", "per second", "WAL bytes each", "disk bytes each"];
    let rows = [row("event of the mix", events), row("delivery", deliveries)];
    format!(
        "## What an event and a delivery cost\n\
         One copy of each program. Events are measured while nobody is subscribed, deliveries as bursts of outbound events. WAL is\n\
         what Postgres writes to its log, with the full-page images that follow a checkpoint. Disk is the growth of the database\n\
         with its indexes; the WAL and the queues of RabbitMQ are not part of it.\n\n{}",
        table(&head, &rows)
    )
}

fn cpu(events: &UnitCost, deliveries: &UnitCost) -> String {
    let seconds = |cost: &UnitCost, seconds: f64| format!("{:.3}", seconds / cost.count as f64 * 1_000.0);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let pairs = events.spent.cpu.programs().iter().zip(deliveries.spent.cpu.programs());
    for ((label, of_events), (_, of_deliveries)) in pairs {
        rows.push(vec![
            (*label).to_owned(),
            seconds(events, *of_events),
            seconds(deliveries, *of_deliveries),
        ]);
    }
    let total = |cost: &UnitCost| cost.spent.cpu.programs().iter().map(|(_, seconds)| seconds).sum::<f64>();
    rows.push(vec![
        "all of these".to_owned(),
        seconds(events, total(events)),
        seconds(deliveries, total(deliveries)),
    ]);
    rows.push(vec![
        "load generator and receiver".to_owned(),
        seconds(events, events.spent.cpu.bench()),
        seconds(deliveries, deliveries.spent.cpu.bench()),
    ]);
    let head = ["CPU time in seconds", "per 1,000 events", "per 1,000 deliveries"];
    format!("## CPU time by program\nFrom the same measurements.\n\n{}", table(&head, &rows))
}

fn backlog(report: &CapacityReport) -> String {
    let rows = report.drains.iter().map(|drain| {
        vec![
            drain.workers.to_string(),
            drain.events.to_string(),
            format!("{:.1}", drain.seconds),
            format!("{:.0}", drain.rate),
        ]
    });
    let head = ["workers", "events waiting", "seconds to drain", "events/s"];
    format!(
        "## Time to drain a backlog\n\
         The events wait in the queue when the workers start. The time runs from the start of the first worker, its own start\n\
         included, until the last event is committed; the rate is that between the first and the last unit of work. Webhooks are\n\
         delivered meanwhile. Each number of workers is measured once.\n\n{}",
        table(&head, &rows.collect::<Vec<_>>())
    )
}
