//! Logs on standard error. They contain ids, never bodies or personal data. The fields of a line's span name its request and
//! trace. If the reader stalls, lines are lost, and nothing else is affected (`log_writer`).

use crate::log_limit::LogLimit;
use crate::log_writer::{self, LogWriter};
use crate::settings::LogSettings;
use std::io::IsTerminal as _;
use std::panic::{self, PanicHookInfo};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts logging, and logs panics from then on.
pub fn start(settings: &LogSettings) -> Result<(), String> {
    let writer = LogWriter::start().map_err(|error| format!("the log writer's thread cannot be started: {error}"))?;
    // Internal errors are not logged: reporting a failed write on standard error would panic.
    let is_colored = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = fmt::layer().with_writer(writer).with_ansi(is_colored).log_internal_errors(false);
    let logs = tracing_subscriber::registry().with(settings.filter.clone()).with(filter_fn(is_free_of_credentials));
    if settings.json {
        logs.with(lines.json().flatten_event(true)).init();
    } else {
        logs.with(lines).init();
    }
    panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Reads a list such as `info,worker=debug`. Spans cannot be named: a filter by spans takes a lock whenever a span is
/// entered, and its regular expressions add a tenth to the build time.
pub(crate) fn filter(directives: &str) -> Result<Targets, String> {
    if directives.contains('[') {
        return Err("spans cannot be named, only targets, such as info,worker=debug".to_owned());
    }
    // An empty one would mean errors only.
    let directives: Vec<&str> = directives.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
    for one in &directives {
        let level = one.split_once('=').map_or(*one, |(_, level)| level);
        // The library takes a misspelt level for a target.
        let is_crate = !one.contains('=') && level.split("::").next().is_some_and(|name| CRATES.contains(&name));
        let is_clear = is_crate || level.parse::<LevelFilter>().is_ok();
        if !is_clear || one.contains(char::is_whitespace) {
            let levels = "off, error, warn, info, debug or trace, as in info,worker=debug";
            return Err(format!("level {level:?} must be {levels}"));
        }
    }
    [&[QUIET], directives.as_slice()].concat().join(",").parse().map_err(|error: ParseError| error.to_string())
}

/// Waits until the lines logged so far are written, for at most a second. Called when a program ends.
pub fn flush() {
    log_writer::flush();
}

/// Prints a line on standard error, unformatted, after the lines logged so far. Waits for at most a second if logging has
/// started.
pub(crate) fn print_last(line: &str) {
    log_writer::print_last(line);
}

/// Crates that can be named without a level: those that log. Other targets are written as target=level.
const CRATES: [&str; 14] = [
    "admin", "common", "connect_console", "connect_dispatcher", "connect_ingest", "connect_worker", "dispatcher",
    "ingest", "worker", "amq_protocol_tcp", "deadpool_postgres", "hyper_util", "lapin", "warp",
];

/// Limits the panics that are logged as errors to one a second for each line of code, modulo 32. Others are logged at
/// `debug`.
static PANICS: LogLimit<32> = LogLimit::new();

/// Libraries whose `trace` level logs each AMQP frame, including the one with the password.
const FRAME_LOGGING_LIBRARIES: [&str; 3] = ["lapin", "amq_protocol", "async_rs"];

/// The AMQP library logs errors that the programs handle, such as a broker that has not started yet or a queue that does not exist,
/// and report themselves. A directive of `RUST_LOG` for `lapin` replaces this one.
const QUIET: &str = "lapin=off";

/// Whether a line cannot contain credentials. Others are dropped whatever `RUST_LOG` says.
fn is_free_of_credentials(line: &Metadata<'_>) -> bool {
    *line.level() != Level::TRACE || !FRAME_LOGGING_LIBRARIES.iter().any(|library| line.target().starts_with(library))
}

/// Logs a panic in its current span, so that the line names request and trace. The message is logged only if it is a literal:
/// a formatted one may quote personal data.
fn log_panic(info: &PanicHookInfo<'_>) {
    let place = info.location().map(tracing::field::display);
    let text = info.payload().downcast_ref::<&'static str>();
    let line = info.location().map_or(0, |location| location.line() as usize);
    if let Some(line) = PANICS.admit(line) {
        tracing::error!(place, text, suppressed = line.suppressed, "a thread panicked; abandoning its current task");
    } else {
        tracing::debug!(place, text, "a thread panicked; abandoning its current task");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::sync::Arc;

    /// The line about a panic in a request's span.
    fn line(panics: fn()) -> Value {
        let (written, writer) = std::io::pipe().unwrap();
        let logs = tracing_subscriber::fmt().json().flatten_event(true).with_writer(Arc::new(writer)).finish();
        tracing::subscriber::with_default(logs, || {
            let in_request = || tracing::error_span!("request", request_id = 7).in_scope(panics);
            assert!(panic::catch_unwind(in_request).is_err());
        });
        serde_json::from_reader(written).unwrap()
    }

    #[test]
    fn a_filter_is_a_list_of_levels_and_targets() {
        let is_on =
            |directives: &str, target: &str, level: &Level| filter(directives).unwrap().would_enable(target, level);
        for directives in ["info", "INFO", "3", "info,", " info , worker=debug", "lapin,info", "info,worker::a"] {
            assert!(is_on(directives, "ingest", &Level::INFO), "{directives}");
            assert!(!is_on(directives, "ingest", &Level::DEBUG), "{directives}");
        }
        assert!(is_on(" info , worker=debug", "worker::consume", &Level::DEBUG));
        assert!(
            !is_on("debug", "lapin::channel", &Level::ERROR) && is_on("lapin=warn", "lapin::channel", &Level::ERROR)
        );
        assert!(filter("[request]=debug").is_err());
        for (directives, level) in [("worker debug", "worker debug"), ("worker=debgu", "debgu"), ("info,inof", "inof")]
        {
            let expected = format!("level {level:?} must be off, error, warn, info, debug or trace, ");
            assert!(filter(directives).unwrap_err().starts_with(&expected), "{directives}");
        }
    }

    #[test]
    fn a_panic_is_logged_with_its_request_and_without_formatted_text() {
        // Other tests' panics are shown as before.
        let shown = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            log_panic(info);
            shown(info);
        }));
        let fixed = line(|| panic!("can't be"));
        let expected = (&"ERROR".into(), &"a thread panicked; abandoning its current task".into());
        assert_eq!((&fixed["level"], &fixed["message"]), expected, "{fixed}");
        let expected = (&7.into(), &"can't be".into());
        assert_eq!((&fixed["span"]["request_id"], &fixed["text"]), expected, "{fixed}");
        assert!(fixed["place"].as_str().unwrap().starts_with("common/src/telemetry.rs:"), "{fixed}");

        let quoting = line(|| panic!("no {}", std::hint::black_box("ana@example.com")));
        assert_eq!(quoting["message"], "a thread panicked; abandoning its current task", "{quoting}");
        assert!(!quoting.to_string().contains("ana@example.com"), "{quoting}");
    }
}
