//! Logs on standard error. They carry ids, never bodies or persons' data. What a line is about, its request and trace
//! above all, is in the fields of its span.

use crate::settings::LogSettings;
use tracing_subscriber::EnvFilter;

/// Starts logging; the error says what is wrong with the filter.
pub fn start(settings: &LogSettings) -> Result<(), String> {
    let filter =
        EnvFilter::try_new(&settings.filter).map_err(|error| format!("setting RUST_LOG: {error}"))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if settings.json {
        logs.json().flatten_event(true).init();
    } else {
        logs.init();
    }
    Ok(())
}
