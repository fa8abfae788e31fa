//! Markdown that can be read on a terminal as well, and docs/capacity.md, which consists of the measured sections.

use crate::options::{Options, Section};
use crate::traffic;
use ::tests::TestDatabase;
use clap::ValueEnum;
use std::fs;
use std::path::Path;

const INTRODUCTION: &str = "\
# Capacity

`make bench ARGS=\"--document\"` writes this document; with names of sections it replaces these and keeps the others. Each section names its rounds and seconds. Load generator, programs, PostgreSQL and RabbitMQ share one
machine, so nothing here is the most that a larger system can do. Every figure stands beside its
floor: the least that the same work costs on the same servers, measured right after it.

- Rates and times are medians of the rounds. \"Rounds differ\" is the distance from the slowest round
  to the fastest one, in percent of the median. The ratio to the floor is followed by its lowest and
  highest one in a round.
- p50 and p99 are times from request to response.
- CPU time is that of one event, request or delivery in microseconds, over all rounds; \"all\" is
  without the load generator. Context switches are those of the whole machine, beside those of the
  floor. \"Other processes\" is the share of the machine's processors that did not work for this run:
  the larger it is, the worse are all rates and times.
";

/// Where and how the figures of a section are measured, to be called before it is.
pub(crate) async fn provenance(options: &Options) -> String {
    let Options { rounds, seconds, .. } = options;
    format!("Rounds: {rounds}, of {seconds} s each. {}. {}.", machine(), postgres().await)
}

fn machine() -> String {
    // The first value of a field in a file of lines `name: value`.
    let field = |path, name| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').unwrap_or_default().1.trim().to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let (model, memory) = (field("/proc/cpuinfo", "model name"), field("/proc/meminfo", "MemTotal"));
    let kib: f64 = memory.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let (load, gib) = (load.split(' ').next().unwrap_or("?"), kib / 1_048_576.0);
    format!("{cores} cores of {model}, {gib:.0} GiB; load average before {load}")
}

/// The version of Postgres and the settings that durability and memory depend on.
async fn postgres() -> String {
    let query = "SELECT format('PostgreSQL %s, shared_buffers %s, fsync %s, synchronous_commit %s',
        split_part(current_setting('server_version'), ' ', 1), current_setting('shared_buffers'),
        current_setting('fsync'), current_setting('synchronous_commit')) AS text";
    let rows = TestDatabase::new().await.rows(query, &[]).await;
    rows[0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Replaces a section of the document beside the sources that this was built from.
pub(crate) fn write(section: Section, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/capacity.md");
    let before = fs::read_to_string(&path).unwrap_or_default();
    let written = fs::write(&path, wrapped(&merged(&before, section, text)));
    written.unwrap_or_else(|error| panic!("docs/capacity.md cannot be written: {error}"));
}

/// The document `before` with a new text of one section, and with the sections in their order.
fn merged(before: &str, section: Section, text: &str) -> String {
    let old = |name: &str| {
        let (_, rest) = before.split_once(&format!("\n## {name}\n"))?;
        Some(rest.split("\n## ").next().unwrap_or(rest).trim_end().to_owned())
    };
    let mut document = format!("{INTRODUCTION}\n{}", traffic::description());
    for one in Section::value_variants() {
        let name = one.name();
        let text = if *one == section { Some(text.trim_end().to_owned()) } else { old(&name) };
        document.extend(text.map(|text| format!("\n## {name}\n{text}\n")));
    }
    document
}

/// Paragraphs and items of lists with lines of at most 100 characters. Tables stay as they are.
fn wrapped(text: &str) -> String {
    let line = |line: &str| match line {
        row if row.starts_with('|') => row.to_owned() + "\n",
        item if item.starts_with("- ") => {
            textwrap::fill(item, textwrap::Options::new(100).subsequent_indent("  ")) + "\n"
        }
        line => textwrap::fill(line, 100) + "\n",
    };
    text.lines().map(line).collect()
}

/// A Markdown table with aligned columns; the first column is text, the others are figures.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut lines: Vec<Vec<String>> = vec![head.iter().map(|cell| (*cell).to_owned()).collect()];
    lines.extend(rows);
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(3).max(3);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let rule = widths.iter().enumerate();
    let rule = rule.map(|(column, width)| match column {
        0 => "-".repeat(*width),
        _ => format!("{}:", "-".repeat(width - 1)),
    });
    lines.insert(1, rule.collect());
    let line = |cells: &Vec<String>| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_and_tables_are_not() {
        let (long, row) = ("word ".repeat(30), format!("| {} |", "x".repeat(120)));
        let text = wrapped(&format!("# Title\n\n{long}\n\n- {long}\n{row}\n"));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= 100 || line.starts_with('|')), "{text}");
        assert!(text.contains("\n  word") && text.contains(&row), "{text}");
        assert_eq!(wrapped(&text), text);
    }

    #[test]
    fn replaces_one_section_and_keeps_the_others() {
        let both = merged(&merged("", Section::Single, "old"), Section::Records, "kept");
        let new = merged(&both, Section::Single, "new\n");
        assert!(new.ends_with("\n## single\nnew\n\n## records\nkept\n"), "{new}");
        assert!(new.starts_with("# Capacity\n"), "{new}");
    }
}
