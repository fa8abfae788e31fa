//! What is printed: one JSON value for programs, a table for people.

use anyhow::Context as _;
use comfy_table::Table;
use comfy_table::presets::ASCII_FULL_CONDENSED;
use common::progress::Progress;
use serde::Serialize;
use std::io::{ErrorKind, Write as _, stdout};

/// Longest text in a table's cell, in characters.
const CELL_MAX: usize = 120;

/// Something that is shown. Serialized it is the JSON of the operator's contract.
pub(crate) trait Show: Serialize {
    /// The table's columns.
    const COLUMNS: &'static [&'static str];

    /// A cell for each column; what is `None` is shown as a dash.
    fn cells(&self) -> Vec<Option<String>>;
}

/// The way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether a program reads.
    pub(crate) const fn is_json(self) -> bool {
        self.json
    }

    /// Prints one thing.
    pub(crate) fn one<T: Show>(self, item: &T) -> anyhow::Result<()> {
        print(&if self.json { serde_json::to_string(item)? } else { table(std::slice::from_ref(item)) })
    }

    /// Prints a list.
    pub(crate) fn many<T: Show>(self, items: &[T]) -> anyhow::Result<()> {
        print(&if self.json { serde_json::to_string(items)? } else { table(items) })
    }

    /// Tells people something beside the result.
    pub(crate) fn note(self, text: &str) {
        if !self.json {
            eprintln!("{text}");
        }
    }

    /// Begins to show people that `total` things are being `what`.
    pub(crate) fn progress(self, what: &'static str, total: u64) -> Progress {
        if self.json { Progress::begin_quietly(what, total) } else { Progress::begin(what, total) }
    }

    /// Tells everybody something that must not be missed.
    pub(crate) fn warn(self, text: &str) {
        eprintln!("connectctl: {text}");
    }
}

/// A reader that has seen enough is no failure.
fn print(text: &str) -> anyhow::Result<()> {
    match writeln!(stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("can't print the result"),
        _ => Ok(()),
    }
}

fn table<T: Show>(items: &[T]) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_FULL_CONDENSED).set_header(T::COLUMNS);
    for item in items {
        table
            .add_row(item.cells().iter().map(|cell| cell.as_deref().map_or_else(|| "-".to_owned(), legible)));
    }
    table.trim_fmt()
}

/// Text that partners sent, made harmless for a terminal and cut to fit a table.
fn legible(text: &str) -> String {
    let mut shown: String =
        text.chars().map(|c| if c.is_control() || turns(c) { ' ' } else { c }).take(CELL_MAX).collect();
    if text.chars().nth(CELL_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Whether it changes the direction of the text after it.
const fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Pair(&'static str, Option<&'static str>);

    impl Show for Pair {
        const COLUMNS: &'static [&'static str] = &["a", "b"];

        fn cells(&self) -> Vec<Option<String>> {
            vec![Some(self.0.to_owned()), self.1.map(str::to_owned)]
        }
    }

    #[test]
    fn a_table_shows_a_dash_for_what_is_not_there() {
        let shown = table(&[Pair("x", Some("y")), Pair("z", None)]);
        assert_eq!(shown.lines().count(), 6, "{shown}");
        assert!(shown.contains("| z | - |"), "{shown}");
    }

    #[test]
    fn a_cell_can_neither_command_a_terminal_nor_fill_it() {
        assert_eq!(legible("a\u{1b}[31m\nb"), "a [31m b");
        assert_eq!(legible("a\u{202e}b\u{2066}c"), "a b c");
        assert_eq!(legible(&"ä".repeat(121)).chars().count(), 121);
        assert!(legible(&"ä".repeat(121)).ends_with("ä…") && !legible(&"ä".repeat(120)).contains('…'));
    }
}
