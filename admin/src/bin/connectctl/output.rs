//! Prints results: one JSON value for programs, a table for people.

use crate::arguments::Limit;
use admin::{Newest, Observer, ProgressStep};
use anyhow::Context as _;
use chrono::{DateTime, Utc};
use comfy_table::Table;
use comfy_table::presets::ASCII_FULL_CONDENSED;
use common::clock;
use common::model::{ClientId, DeliveryState, DiscoveryId, LeadId, ProposalId, Stage, TenantId, TripId, text};
use common::progress::Progress;
use serde::Serialize;
use serde_json::value::RawValue;
use std::io::{ErrorKind, Write as _, stdout};
use terminal_size::{Width, terminal_size_of};
use textwrap::{Options, WordSplitter, fill};
use uuid::Uuid;

/// Default limits of a list: rows of a table, and items of JSON.
const TABLE_MAX: u32 = 1_000;
const JSON_MAX: u32 = 100_000;
/// Longest text in a table cell, in characters.
const CELL_MAX: usize = 120;

/// A result that can be printed. Serialized, it is the JSON of the operator's contract.
pub(crate) trait Show: Serialize {
    /// Headings of the table.
    const COLUMNS: &'static [&'static str];

    /// A cell for each column; `None` is printed as a dash.
    fn cells(&self) -> Vec<Option<String>>;
}

/// Implements [`Show`] for a type: each column has its heading, and an expression of the item whose type is a [`Cell`].
macro_rules! show {
    ($type:ty, $item:ident: $($column:literal $cell:expr),+) => {
        impl $crate::output::Show for $type {
            const COLUMNS: &'static [&'static str] = &[$($column),+];

            fn cells(&self) -> Vec<Option<String>> {
                let $item = self;
                vec![$($crate::output::Cell::cell(&$cell)),+]
            }
        }
    };
}
pub(crate) use show;

/// The value of a cell.
pub(crate) trait Cell {
    /// The text of the cell; `None` for a dash.
    fn cell(&self) -> Option<String>;
}

macro_rules! displayed {
    ($($type:ty),+) => {$(
        impl Cell for $type {
            fn cell(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+};
}
displayed!(&str, String, Box<RawValue>, Uuid, i16, i32, i64, u32, u64, usize);
displayed!(ClientId, DiscoveryId, LeadId, ProposalId, TenantId, TripId, DeliveryState, Stage);

impl Cell for DateTime<Utc> {
    fn cell(&self) -> Option<String> {
        Some(clock::to_text(*self))
    }
}

impl Cell for bool {
    fn cell(&self) -> Option<String> {
        Some(if *self { "yes" } else { "no" }.to_owned())
    }
}

impl Cell for Vec<String> {
    fn cell(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.join(", "))
    }
}

impl<T: Cell> Cell for Option<T> {
    fn cell(&self) -> Option<String> {
        self.as_ref().and_then(T::cell)
    }
}

/// Where a command prints: as JSON or as tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether JSON is printed.
    pub(crate) const fn is_json(self) -> bool {
        self.json
    }

    /// Prints one item, as a JSON object or as a table of one row.
    pub(crate) fn print_one<T: Show>(self, item: &T) -> anyhow::Result<()> {
        if self.json { self.print_json(item) } else { print_fitting(std::slice::from_ref(item)) }
    }

    /// Prints a document as JSON: in one line, or indented for people.
    pub(crate) fn print_document<T: Serialize>(self, document: &T) -> anyhow::Result<()> {
        let json = if self.json { serde_json::to_string } else { serde_json::to_string_pretty };
        print(&text::escaped_json(json(document)?))
    }

    /// Prints several items, as a JSON array or as a table.
    pub(crate) fn print_list<T: Show>(self, items: &[T]) -> anyhow::Result<()> {
        if self.json { self.print_json(&items) } else { print_fitting(items) }
    }

    /// Prints items whose texts are long and are not cut: a paragraph for each.
    pub(crate) fn print_long_list<T: Show>(self, items: &[T]) -> anyhow::Result<()> {
        print(&paragraphs(items, terminal_width()))
    }

    /// Prints a value as JSON, for a command that prints something else without `--json`.
    pub(crate) fn print_json(self, value: &impl Serialize) -> anyhow::Result<()> {
        print(&text::escaped_json(serde_json::to_string(value)?))
    }

    /// Prints lines that are not a table, such as commands.
    pub(crate) fn print_text(self, text: &str) -> anyhow::Result<()> {
        print(text)
    }

    /// Prints a text of many lines as it is, or as one JSON string.
    pub(crate) fn print_help(self, text: &str) -> anyhow::Result<()> {
        if self.json { self.print_json(&text) } else { print_raw(text) }
    }

    /// Prints a part of a text as it is.
    pub(crate) fn print_part(self, part: &str) -> anyhow::Result<()> {
        print_raw(part)
    }

    /// The number of items that a list may have.
    pub(crate) fn limit(self, given: &Limit) -> u32 {
        given.rows.unwrap_or(if self.json { JSON_MAX } else { TABLE_MAX })
    }

    /// Prints the newest items of a list, of which at most `limit` were asked for. Warns if there are older ones.
    pub(crate) fn print_newest<T: Show>(self, newest: &Newest<T>, limit: u32) -> anyhow::Result<()> {
        if newest.is_cut {
            self.warn(&format!("only the newest {limit} are shown; use --limit N to show more"));
        }
        self.print_list(&newest.items)
    }

    /// Prints a note on standard error, except with `--json`.
    pub(crate) fn note(self, text: &str) {
        if !self.json {
            eprintln!("{}", text::escaped(text));
        }
    }

    /// Shows how an operation proceeds, on standard error.
    pub(crate) const fn observer(self) -> OutputObserver {
        OutputObserver { output: self, progress: None }
    }

    /// Prints a warning on standard error, also with `--json`.
    pub(crate) fn warn(self, text: &str) {
        eprintln!("connectctl: {}", text::escaped(text));
    }
}

/// Shows the progress of an operation, except with `--json`, and its notices as warnings.
#[derive(Debug)]
pub(crate) struct OutputObserver {
    output: Output,
    /// Of the step that is under way.
    progress: Option<Progress>,
}

impl Observer for OutputObserver {
    fn begin(&mut self, step: ProgressStep, total: u64) {
        let what = match step {
            ProgressStep::ApplyMigrations => "migrations applied:",
            ProgressStep::RequeueDeadLetters => "requeued",
            ProgressStep::DropDeadLetters => "dropped",
            ProgressStep::CheckDeadLetters => "dead letters checked:",
            ProgressStep::ReplayDeliveries => "replayed",
            ProgressStep::RewrapSecrets => "values rewrapped:",
            ProgressStep::RemoveExpired => "removed",
        };
        let begin = if self.output.json { Progress::begin_quietly } else { Progress::begin };
        self.progress = Some(begin(what, total));
    }

    fn begin_item(&mut self, name: &str) {
        if let Some(progress) = &mut self.progress {
            progress.next(name);
        }
    }

    fn detail(&mut self, text: &str) {
        if let Some(progress) = &mut self.progress {
            progress.detail(text);
        }
    }

    fn reached(&mut self, done: u64) {
        if let Some(progress) = &mut self.progress {
            progress.reached(done);
        }
    }

    fn end(&mut self, done: u64) {
        if let Some(progress) = self.progress.take() {
            progress.end(done);
        }
    }
}

/// Prints to standard output. A closed pipe is not an error: the reader has seen enough.
fn print(text: &str) -> anyhow::Result<()> {
    print_raw(&format!("{text}\n"))
}

fn print_raw(text: &str) -> anyhow::Result<()> {
    match stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot print the result"),
        _ => Ok(()),
    }
}

/// Prints a table, or a paragraph for each item if the terminal is narrower.
fn print_fitting<T: Show>(items: &[T]) -> anyhow::Result<()> {
    print(&fitting(items, terminal_width()))
}

/// The columns of the terminal; none for a pipe or a file.
fn terminal_width() -> Option<usize> {
    terminal_size_of(stdout()).map(|(Width(columns), _)| usize::from(columns))
}

/// A table, or paragraphs if it has more than `width` columns, or on a terminal a sentence if there are no items.
fn fitting<T: Show>(items: &[T], width: Option<usize>) -> String {
    if items.is_empty() && width.is_some() {
        return "There is nothing to list.".to_owned();
    }
    let table = table(items);
    let fits = |width| table.lines().all(|line| line.chars().count() <= width);
    if width.is_none_or(fits) { table } else { paragraphs(items, width) }
}

/// A paragraph for each item, with a text for each column, wrapped to `width` columns.
fn paragraphs<T: Show>(items: &[T], width: Option<usize>) -> String {
    let longest = T::COLUMNS.iter().map(|column| column.len()).max().unwrap_or_default();
    let line = |(cell, column): (Option<String>, &&str)| {
        let text = text::escaped(&cell.unwrap_or_else(|| "-".to_owned()));
        let (name, blanks) = (format!("{column:longest$}  "), " ".repeat(longest + 2));
        let options = Options::new(width.unwrap_or(usize::MAX)).initial_indent(&name).subsequent_indent(&blanks);
        fill(&text, options.break_words(false).word_splitter(WordSplitter::NoHyphenation))
    };
    let paragraph = |item: &T| item.cells().into_iter().zip(T::COLUMNS).map(line).collect::<Vec<_>>().join("\n");
    items.iter().map(paragraph).collect::<Vec<_>>().join("\n\n")
}

fn table<T: Show>(items: &[T]) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_FULL_CONDENSED).set_header(T::COLUMNS);
    for item in items {
        table.add_row(item.cells().iter().map(|cell| cell.as_deref().map_or_else(|| "-".to_owned(), shown_cell)));
    }
    table.trim_fmt()
}

/// A text in a cell, which a terminal does not interpret, cut to the width of a cell.
fn shown_cell(text: &str) -> String {
    let shown = text::escaped(text);
    shown.char_indices().nth(CELL_MAX).map_or_else(|| shown.clone(), |(end, _)| format!("{}…", &shown[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Pair(&'static str, Option<&'static str>);

    show!(Pair, pair: "a" pair.0, "b" pair.1);

    #[test]
    fn a_table_shows_a_dash_for_a_missing_value() {
        let shown = table(&[Pair("x", Some("y")), Pair("z", None)]);
        assert_eq!(shown.lines().count(), 6, "{shown}");
        assert!(shown.contains("| z | - |"), "{shown}");
    }

    #[test]
    fn a_table_that_is_wider_than_the_terminal_becomes_paragraphs() {
        let items = [Pair("x", Some("y")), Pair("z", None)];
        let table = fitting(&items, None);
        assert_eq!(fitting::<Pair>(&[], Some(100)), "There is nothing to list.");
        let width = table.lines().next().unwrap().len();
        assert_eq!(fitting(&items, Some(width)), table);
        let [first, second] = <Pair as Show>::COLUMNS else { panic!("two columns") };
        let narrow = fitting(&items, Some(width - 1));
        assert_eq!(narrow, format!("{first}  x\n{second}  y\n\n{first}  z\n{second}  -"));
        let long = [Pair("three short words", None)];
        assert_eq!(paragraphs(&long, Some(14)), "a  three short\n   words\nb  -");
        assert_eq!(paragraphs(&long, None), "a  three short words\nb  -");
    }

    #[test]
    fn cells_contain_no_control_characters_and_are_cut() {
        assert_eq!(shown_cell("a\u{1b}[31m\nb\u{202e}"), "a\\u{1b}[31m\\nb\\u{202e}");
        assert_eq!(shown_cell(&"ä".repeat(121)).chars().count(), 121);
        assert!(shown_cell(&"ä".repeat(121)).ends_with("ä…") && !shown_cell(&"ä".repeat(120)).contains('…'));
    }
}
