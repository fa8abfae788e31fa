//! Programs that do one thing and end.

use crate::binaries::binary;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// No such program takes longer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

impl Ran {
    /// Runs a program with these arguments, and with these settings and no others, to its end.
    pub async fn of(name: &str, arguments: &[&str], settings: &[(String, String)]) -> Self {
        let mut command = Command::new(binary(name));
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).env_clear();
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        let output = tokio::time::timeout(TIMEOUT, command.output()).await;
        let output = output.unwrap_or_else(|_| panic!("{name} {arguments:?} didn't end in {TIMEOUT:?}"));
        let output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
        Self {
            code: output.status.code(),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The one JSON value on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.output).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }
}
