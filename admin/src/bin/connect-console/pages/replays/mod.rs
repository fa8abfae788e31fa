//! Replay jobs.

pub(crate) mod list;
pub(crate) mod show;
pub(crate) mod stop;

use crate::format::number;
use admin::deliveries::{ReplayJob, ReplayJobState};
use maud::{Markup, html};

fn state(state: ReplayJobState) -> Markup {
    let (class, text) = match state {
        ReplayJobState::Running => ("warn", "running"),
        ReplayJobState::Stopping => ("warn", "stopping"),
        ReplayJobState::Completed => ("good", "completed"),
        ReplayJobState::Stopped => ("soft", "stopped"),
    };
    html! { span class=(class) { (text) } }
}

/// Such as `120 of 500`.
fn progress(job: &ReplayJob) -> String {
    let matched = job.matched.map_or_else(|| "more than 100\u{2009}000".to_owned(), number);
    format!("{} of {matched}", number(job.replayed))
}
