//! Logs on standard error. They carry ids, never bodies or persons' data. What a line is about, its request and trace
//! above all, is in the fields of its span. A reader that stalls costs lines and nothing else (`log_writer`).

use crate::log_limit::LogLimit;
use crate::log_writer::{self, LogWriter};
use crate::settings::LogSettings;
use std::io::IsTerminal as _;
use std::panic::{self, PanicHookInfo};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{ParseError, Targets, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts logging; the error says what is wrong with the filter. From then on panics are lines of the log, too.
pub fn start(settings: &LogSettings) -> Result<(), String> {
    let filter = filter(&settings.filter).map_err(|error| format!("setting RUST_LOG: {error}"))?;
    let writer = LogWriter::start().map_err(|error| format!("can't start the thread of the log: {error}"))?;
    // A line that can't be written is lost. To complain of it on standard error, too, would be a panic.
    let is_colored = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = fmt::layer().with_writer(writer).with_ansi(is_colored).log_internal_errors(false);
    let logs = tracing_subscriber::registry().with(filter).with(filter_fn(is_discreet));
    if settings.json {
        logs.with(lines.json().flatten_event(true)).init();
    } else {
        logs.with(lines).init();
    }
    panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Reads a list such as `info,worker=debug`. Spans cannot be named: a filter that knows them takes a lock whenever one is
/// entered, and its regular expressions take a tenth of the build.
fn filter(directives: &str) -> Result<Targets, String> {
    if directives.contains('[') {
        return Err("spans cannot be named, only targets, such as info,worker=debug".to_owned());
    }
    // An empty one would mean errors only.
    let directives: Vec<&str> = directives.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
    if let Some(unclear) = directives.iter().find(|one| one.contains(char::is_whitespace)) {
        return Err(format!("{unclear:?} holds white space"));
    }
    directives.join(",").parse().map_err(|error: ParseError| error.to_string())
}

/// Waits until what was logged so far is written, a second at most. For the end of a program.
pub fn flush() {
    log_writer::flush();
}

/// Prints a line on standard error as it is, after what was logged so far. Waits for a second at most where logging has
/// started.
pub fn print_last(line: &str) {
    log_writer::print_last(line);
}

/// Which panics are logged as errors: one a second for each place, as far as 32 tell them apart. The others are lines at
/// `debug`.
static PANICS: LogLimit<32> = LogLimit::new();

/// Libraries whose finest level shows each frame, the one with the password included.
const TALKATIVE: [&str; 3] = ["lapin", "amq_protocol", "async_rs"];

/// Whether a line is free of credentials, whatever `RUST_LOG` asks for.
fn is_discreet(line: &Metadata<'_>) -> bool {
    *line.level() != Level::TRACE || !TALKATIVE.iter().any(|library| line.target().starts_with(library))
}

/// Logs a panic in the span in which it happens, so that its line names request and trace. Its text is logged when the
/// code has it word for word: one that was put together may quote what a person sent.
fn log_panic(info: &PanicHookInfo<'_>) {
    let place = info.location().map(tracing::field::display);
    let text = info.payload().downcast_ref::<&'static str>();
    let line = info.location().map_or(0, |location| location.line() as usize);
    if let Some(line) = PANICS.admit(line) {
        tracing::error!(place, text, suppressed = line.suppressed, "panicked");
    } else {
        tracing::debug!(place, text, "panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Written {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// The line about a panic in a request's span.
    fn line(panics: fn()) -> Value {
        let written = Written::default();
        let logs = tracing_subscriber::fmt().json().flatten_event(true).with_writer(written.clone()).finish();
        tracing::subscriber::with_default(logs, || {
            let in_request = || tracing::error_span!("request", request_id = 7).in_scope(panics);
            assert!(panic::catch_unwind(in_request).is_err());
        });
        let written = written.0.lock().unwrap();
        serde_json::from_slice(&written).unwrap_or_else(|error| panic!("{error}: {written:?}"))
    }

    #[test]
    fn a_filter_is_a_list_of_levels_and_targets() {
        let is_on = |directives: &str, target: &str, level: &Level| {
            filter(directives).unwrap().would_enable(target, level)
        };
        for directives in ["info", "info,", " info , worker=debug", "worker=debug,info"] {
            assert!(is_on(directives, "ingest", &Level::INFO), "{directives}");
            assert!(!is_on(directives, "ingest", &Level::DEBUG), "{directives}");
        }
        assert!(is_on(" info , worker=debug", "worker::consume", &Level::DEBUG));
        for refused in ["[request]=debug", "worker debug", "worker=loud"] {
            assert!(filter(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_panic_is_a_line_of_its_request_and_quotes_nothing_that_was_put_together() {
        // Other tests' panics are shown as before.
        let shown = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            log_panic(info);
            shown(info);
        }));
        let fixed = line(|| panic!("can't be"));
        assert_eq!((&fixed["level"], &fixed["message"]), (&"ERROR".into(), &"panicked".into()), "{fixed}");
        assert_eq!(
            (&fixed["span"]["request_id"], &fixed["text"]),
            (&7.into(), &"can't be".into()),
            "{fixed}"
        );
        assert!(fixed["place"].as_str().unwrap().starts_with("common/src/telemetry.rs:"), "{fixed}");

        let quoting = line(|| panic!("no {}", std::hint::black_box("ana@example.com")));
        assert_eq!(quoting["message"], "panicked", "{quoting}");
        assert!(!quoting.to_string().contains("ana@example.com"), "{quoting}");
    }
}
