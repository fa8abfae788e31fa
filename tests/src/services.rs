//! The Postgres and RabbitMQ that all tests share.
//!
//! `DATABASE_URL` and `AMQP_URL` name them. When they aren't set, private ones are started, and stopped when this
//! process ends.

use crate::binaries::variable;
use crate::threads::when_this_process_ends;
use crate::{binaries, duration};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The URLs of the shared servers.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    /// The URL of Postgres, with a user that may create databases.
    pub(crate) database_url: String,
    /// The URL of RabbitMQ.
    pub(crate) amqp_url: String,
}

/// The servers that all tests share.
pub(crate) fn shared_servers() -> &'static Servers {
    static SERVERS: OnceLock<Servers> = OnceLock::new();
    let named = || Some(Servers { database_url: variable("DATABASE_URL")?, amqp_url: variable("AMQP_URL")? });
    SERVERS.get_or_init(|| named().unwrap_or_else(start_shared))
}

fn start_shared() -> Servers {
    let directory = server_directory("shared");
    stop_with_this_process(&directory);
    // No test stops the shared servers, so they need not wait for the disk.
    run_script(&["make-volatile", &directory.to_string_lossy()]);
    let printed = run_script(&["start", &directory.to_string_lossy()]);
    Servers { database_url: printed_value(&printed, "DATABASE_URL"), amqp_url: printed_value(&printed, "AMQP_URL") }
}

/// A directory for servers of this process, not made yet.
pub(crate) fn server_directory(name: &str) -> PathBuf {
    duration::measure();
    binaries::root().join("target/test-services").join(format!("{}-{name}", std::process::id()))
}

/// The script that starts and stops servers.
pub(crate) fn script() -> PathBuf {
    variable("CONNECT_SERVICES").map_or_else(|| binaries::root().join("ops/local/services.sh"), PathBuf::from)
}

/// Stops the servers of `directory` and removes its files when this process ends.
pub(crate) fn stop_with_this_process(directory: &Path) {
    let stop = r#""$0" stop-all "$1"; umount -l "$1" 2>/dev/null; rm -rf "$1""#;
    when_this_process_ends(stop, vec![script().into(), directory.into()]);
}

/// Runs the script and returns its standard output. Panics if it fails.
pub(crate) fn run_script(arguments: &[&str]) -> String {
    try_script(arguments).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the script and returns its standard output, or what it says of its failure.
pub(crate) fn try_script(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(script()).args(arguments).stdin(Stdio::null()).output().expect("the script runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("services.sh {arguments:?}: {errors}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The value of a printed line `NAME=value`.
pub(crate) fn printed_value(printed: &str, name: &str) -> String {
    let line = printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("services.sh printed no {name}: {printed}")).to_owned()
}
