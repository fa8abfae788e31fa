//! Loads beside their floors, round by round, as rows of a table.

use crate::document::table;
use crate::measure::LoadStats;
use crate::usage::{PARTS, Usage};
use std::sync::atomic::{AtomicBool, Ordering};
use tests::World;

/// Whether a load exceeded a bound.
pub(crate) static EXCEEDED: AtomicBool = AtomicBool::new(false);

/// Several loads, each with its floor.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// What is counted, such as `events`, and the floor, such as `bare inserts`.
    unit: &'static str,
    floor: &'static str,
    /// The figure that is compared: a ratio to the floor is that of this figure.
    figure: fn(&LoadStats) -> f64,
    rows: Vec<Row>,
}

/// The results of all rounds of a load.
#[derive(Debug)]
struct Row {
    label: String,
    /// The load, its floor, and what each of them used.
    rounds: Vec<(LoadStats, LoadStats, Usage, Usage)>,
}

impl Comparison {
    /// Compares rates.
    pub(crate) fn of_rates(unit: &'static str, floor: &'static str) -> Self {
        Self { unit, floor, figure: |stats| stats.rate, rows: Vec::new() }
    }

    /// Compares the slowest responses, of loads whose rate is fixed.
    pub(crate) fn of_p99(unit: &'static str, floor: &'static str) -> Self {
        Self { figure: |stats| stats.p99, ..Self::of_rates(unit, floor) }
    }

    /// Compares the usual responses, of loads whose rate is fixed.
    pub(crate) fn of_p50(unit: &'static str, floor: &'static str) -> Self {
        Self { figure: |stats| stats.p50, ..Self::of_rates(unit, floor) }
    }

    /// Measures one round of a load and then of its floor, and adds it to the row of that label.
    pub(crate) async fn measure(
        &mut self, label: &str, world: &World, load: impl Future<Output = LoadStats>,
        floor: impl Future<Output = LoadStats>,
    ) {
        let before = Usage::read(world).await;
        let load = load.await;
        let between = Usage::read(world).await;
        let floor = floor.await;
        let (usage, floors) = (between.since(&before), Usage::read(world).await.since(&between));
        eprintln!("{label}: {:.0} {}/s, {}: {:.0}/s", load.rate, self.unit, self.floor, floor.rate);
        match self.rows.iter_mut().find(|row| row.label == label) {
            Some(row) => row.rounds.push((load, floor, usage, floors)),
            None => self.rows.push(Row { label: label.to_owned(), rounds: vec![(load, floor, usage, floors)] }),
        }
    }

    /// The table of rates and times.
    pub(crate) fn figures(&self) -> String {
        let row = |row: &Row| {
            let loads = |figure: fn(&LoadStats) -> f64| Rounds::of(row.rounds.iter().map(|one| figure(&one.0)));
            let floors = |figure: fn(&LoadStats) -> f64| Rounds::of(row.rounds.iter().map(|one| figure(&one.1)));
            let ratios = row.rounds.iter().map(|one| (self.figure)(&one.0) / (self.figure)(&one.1));
            let ratio = Rounds::of(ratios);
            vec![
                row.label.clone(),
                format!("{:.0}", loads(|load| load.rate).median),
                millis(loads(|load| load.p50).median),
                millis(loads(|load| load.p99).median),
                loads(self.figure).spread(),
                format!("{:.0}", floors(|floor| floor.rate).median),
                millis(floors(|floor| floor.p50).median),
                millis(floors(|floor| floor.p99).median),
                percent(ratio.median),
                format!("{:.0} to {}", ratio.lowest * 100.0, percent(ratio.highest)),
            ]
        };
        let (rate, floor) = (format!("{}/s", self.unit), format!("{}/s", self.floor));
        let head = ["", &rate, "p50", "p99", "rounds differ", &floor, "p50", "p99", "ratio", "of the rounds"];
        table(&head, self.rows.iter().map(row))
    }

    /// The table of what one event, request or delivery costs.
    pub(crate) fn costs(&self) -> String {
        let row = |row: &Row| {
            let count = row.rounds.iter().map(|(load, ..)| load.count).sum::<usize>() as f64;
            let sum = |of: &dyn Fn(&Usage) -> f64| row.rounds.iter().map(|one| of(&one.2)).sum::<f64>();
            let micros = |seconds: f64| format!("{:.0}", seconds / count * 1e6);
            let parts: Vec<f64> = (0..PARTS.len()).map(|part| sum(&|usage| usage.cpu[part])).collect();
            // The generator, which is the last one, is no part of the system.
            let mut cells = vec![row.label.clone(), micros(parts[..PARTS.len() - 1].iter().sum())];
            cells.extend(parts.into_iter().map(micros));
            cells.push(format!("{:.1}", row.context_switches()));
            let floors = row.rounds.iter().map(|(_, floor, _, used)| used.context_switches / floor.count as f64);
            cells.push(format!("{:.1}", Rounds::of(floors).median));
            cells.push(format!("{:.0}", sum(&|usage| usage.wal) / count));
            cells.push(percent((sum(&Usage::others) / sum(&|usage| usage.total)).max(0.0)));
            cells
        };
        let mut head = vec!["CPU µs of each", "all"];
        head.extend(PARTS);
        head.extend(["context switches", "the floor's", "WAL bytes", "other processes"]);
        table(&head, self.rows.iter().map(row))
    }

    /// Ends the run with an error once all sections are done, if a load takes more context switches than its bound.
    pub(crate) fn check_context_switches(&self, bounds: &[(&str, f64)]) {
        for (label, bound) in bounds {
            let row = self.rows.iter().find(|row| row.label == *label).expect("a load of that name");
            let switches = row.context_switches();
            if switches.is_nan() || switches > *bound {
                eprintln!("{label}: {switches:.1} context switches for each, of {bound} at most");
                EXCEEDED.store(true, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn tables(&self) -> String {
        format!("{}\n{}", self.figures(), self.costs())
    }
}

impl Row {
    /// Context switches of the whole machine for each one.
    fn context_switches(&self) -> f64 {
        Rounds::of(self.rounds.iter().map(|(load, _, used, _)| used.context_switches / load.count as f64)).median
    }
}

/// The lowest, middle and highest of several rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    pub(crate) lowest: f64,
    pub(crate) median: f64,
    pub(crate) highest: f64,
}

impl Rounds {
    /// NaN without values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let value = |position: usize| values.get(position).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self { lowest: value(0), median: value(values.len() / 2), highest: value(last) }
    }

    /// How far the rounds differ: the distance from the lowest to the highest, in percent of the median.
    pub(crate) fn spread(&self) -> String {
        percent((self.highest - self.lowest) / self.median)
    }
}

/// Formats seconds as milliseconds.
pub(crate) fn millis(seconds: f64) -> String {
    let millis = seconds * 1_000.0;
    match millis {
        _ if millis.is_nan() => "-".to_owned(),
        ..10.0 => format!("{millis:.2} ms"),
        _ => format!("{millis:.1} ms"),
    }
}

/// Formats a ratio as percent.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}
