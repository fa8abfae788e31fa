//! A load compared with its floor, round by round, as a row of a table.

use crate::figures::{LoadStats, median, millis, percent};

/// The results of all rounds, with the label of the row.
#[derive(Debug)]
pub(crate) struct Comparison {
    label: String,
    /// The ratio to reach.
    target: Option<f64>,
    loads: Vec<LoadStats>,
    floors: Vec<LoadStats>,
}

impl Comparison {
    pub(crate) fn new(label: impl Into<String>, target: Option<f64>) -> Self {
        Self { label: label.into(), target, loads: Vec::new(), floors: Vec::new() }
    }

    /// Adds a round: the load and the floor that was measured after it.
    pub(crate) fn add(&mut self, load: LoadStats, floor: LoadStats) {
        self.loads.push(load);
        self.floors.push(floor);
    }

    /// The median of a figure of the load.
    pub(crate) fn of_loads(&self, figure: fn(&LoadStats) -> f64) -> f64 {
        median(self.loads.iter().map(figure))
    }

    /// The median of a figure of the floor.
    pub(crate) fn of_floors(&self, figure: fn(&LoadStats) -> f64) -> f64 {
        median(self.floors.iter().map(figure))
    }

    /// The rate of the load divided by the rate of the floor, for each round.
    fn ratios(&self) -> Vec<f64> {
        self.loads.iter().zip(&self.floors).map(|(load, floor)| load.rate / floor.rate).collect()
    }

    /// Prints the head of a table of such rows; `unit` is what is counted.
    pub(crate) fn print_head(unit: &str, floor: &str) {
        let (rate, floor) = (format!("{unit}/s"), format!("{floor}/s"));
        println!(
            "{:>38} {rate:>11} {:>10} {:>10}   {floor:>13} {:>10} {:>7} {:>7}   ratio of each round",
            "", "p50", "p99", "p50", "ratio", "target"
        );
    }

    pub(crate) fn print(&self) {
        let ratios = self.ratios();
        let each: Vec<String> = ratios.iter().map(|ratio| percent(*ratio)).collect();
        println!(
            "{:>38} {:>11.0} {:>10} {:>10}   {:>13.0} {:>10} {:>7} {:>7}   {}",
            self.label,
            self.of_loads(|load| load.rate),
            millis(self.of_loads(|load| load.p50)),
            millis(self.of_loads(|load| load.p99)),
            self.of_floors(|floor| floor.rate),
            millis(self.of_floors(|floor| floor.p50)),
            percent(median(ratios)),
            self.target.map(percent).unwrap_or_default(),
            each.join(", ")
        );
    }
}
