//! Progress of a long command on standard error: a bar on a terminal, otherwise a line from time to time.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

const BETWEEN_LINES: Duration = Duration::from_secs(1);
/// How often the elapsed time of a bar is redrawn.
const TICK: Duration = Duration::from_millis(200);
const BAR: &str = "{prefix} [{bar:40}] {human_pos} of {human_len}, {elapsed} so far, {eta} to go {msg}";

/// The progress of one command.
#[derive(Debug)]
pub struct Progress {
    done_word: &'static str,
    total: u64,
    started_items: u64,
    shown: Shown,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Lines {
        last: Instant,
    },
    /// Nothing is shown: a program reads the result.
    Nothing,
}

impl Progress {
    /// Begins to show the progress of `total` items. `done_word`, such as "requeued", is printed before the numbers.
    pub fn begin(done_word: &'static str, total: u64) -> Self {
        let bar = bar(done_word, total);
        // Hidden when standard error is not a terminal, or is a terminal without cursor control.
        let shown = if bar.is_hidden() { Shown::Lines { last: Instant::now() } } else { Shown::Bar(bar) };
        Self { done_word, total, started_items: 0, shown }
    }

    /// Like [`begin`](Self::begin), but shows nothing if standard error is not a terminal: for commands that a program runs.
    pub fn begin_quietly(done_word: &'static str, total: u64) -> Self {
        let begun = Self::begin(done_word, total);
        match begun.shown {
            Shown::Lines { .. } => Self { shown: Shown::Nothing, ..begun },
            Shown::Bar(_) | Shown::Nothing => begun,
        }
    }

    /// Updates the number of finished items.
    pub fn reached(&mut self, done: u64) {
        match &mut self.shown {
            Shown::Bar(bar) => bar.set_position(done),
            Shown::Lines { last } if last.elapsed() >= BETWEEN_LINES => {
                *last = Instant::now();
                eprintln!("{} {done} of {}", self.done_word, self.total);
            }
            Shown::Lines { .. } | Shown::Nothing => {}
        }
    }

    /// Starts the next item, after those before it are finished. For few items that take long and have a name.
    pub fn next(&mut self, name: &str) {
        if let Shown::Bar(bar) = &self.shown {
            bar.set_position(self.started_items);
            bar.set_message(format!("({name})"));
        }
        self.started_items += 1;
        if let Shown::Lines { .. } = self.shown {
            eprintln!("{} of {}: {name}", self.started_items, self.total);
        }
    }

    /// Says what the current item is about.
    pub fn detail(&mut self, text: &str) {
        match &mut self.shown {
            Shown::Bar(bar) => bar.set_message(format!("({text})")),
            Shown::Lines { last } if last.elapsed() >= BETWEEN_LINES => {
                *last = Instant::now();
                eprintln!("  {text}");
            }
            Shown::Lines { .. } | Shown::Nothing => {}
        }
    }

    /// Ends the display; `done` may be less than the total. The command itself reports what was left out.
    pub fn end(self, done: u64) {
        match self.shown {
            Shown::Bar(bar) => bar.finish_and_clear(),
            Shown::Lines { .. } if self.total > 0 => eprintln!("{} {done} of {}", self.done_word, self.total),
            Shown::Lines { .. } | Shown::Nothing => {}
        }
    }
}

fn bar(done_word: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_prefix(done_word);
    bar.enable_steady_tick(TICK);
    match ProgressStyle::with_template(BAR) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
