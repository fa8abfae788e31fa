//! How far a long command has come, on standard error: a bar on a terminal, otherwise a line from time to time.

use crate::output::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

/// Time between lines.
const BETWEEN_LINES: Duration = Duration::from_secs(1);
const BAR: &str = "{msg} [{bar:40}] {human_pos} of {human_len}, {eta} to go";

/// The progress of one command.
pub(crate) struct Progress {
    what: &'static str,
    total: u64,
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines {
        last: Instant,
    },
    /// A program reads the result, and nobody looks.
    Nothing,
}

impl Progress {
    /// Begins to show that `total` things are being `what`, a participle.
    pub(crate) fn begin(output: Output, what: &'static str, total: u64) -> Self {
        let shown = if stderr().is_terminal() {
            Shown::Bar(bar(what, total))
        } else if output.is_json() {
            Shown::Nothing
        } else {
            Shown::Lines { last: Instant::now() }
        };
        Self { what, total, shown }
    }

    /// So many are done by now.
    pub(crate) fn reached(&mut self, done: u64) {
        match &mut self.shown {
            Shown::Bar(bar) => bar.set_position(done),
            Shown::Lines { last } if last.elapsed() >= BETWEEN_LINES => {
                *last = Instant::now();
                eprintln!("{} {done} of {}", self.what, self.total);
            }
            Shown::Lines { .. } | Shown::Nothing => {}
        }
    }

    /// All is done; `done` may be less than was expected. What went otherwise is told by the command.
    pub(crate) fn end(self, done: u64) {
        match self.shown {
            Shown::Bar(bar) => bar.finish_and_clear(),
            Shown::Lines { .. } => eprintln!("{} {done} of {}", self.what, self.total),
            Shown::Nothing => {}
        }
    }
}

fn bar(what: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_message(what);
    match ProgressStyle::with_template(BAR) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
