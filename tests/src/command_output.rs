//! Running programs that end by themselves, and their output.

use crate::binaries::{binary, root};
use crate::environment::variable;
use serde_json::Value;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Maximum time that a program may run.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Exit code and output of a program that has ended.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// The exit code; none when a signal ended the program.
    pub code: Option<i32>,
    /// Everything on standard output.
    pub output: String,
    /// Everything on standard error.
    pub errors: String,
}

impl CommandOutput {
    /// Runs a program with these arguments, and with these settings and no others, to its end.
    pub async fn of(name: &str, arguments: &[&str], settings: &[(String, String)]) -> Self {
        let mut command = Command::new(binary(name));
        command.args(arguments).env_clear();
        Self::end(command, settings, b"", &format!("{name} {arguments:?}")).await
    }

    /// Runs a script in bash, which finds the programs by their names and ends at the first command that fails.
    pub async fn bash(script: &str, settings: &[(String, String)]) -> Self {
        let programs = binary("connectctl").parent().expect("a program is in a directory").to_owned();
        let path = format!("{}:{}", programs.display(), variable("PATH").unwrap_or_default());
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", script]).env_clear().env("PATH", path);
        Self::end(command, settings, b"", script).await
    }

    /// Runs one of `tests/examples`, by its file's name, with these settings beside the environment, and returns it
    /// `input` to read.
    pub async fn example(
        file: &str,
        arguments: &[impl AsRef<OsStr> + Debug],
        settings: &[(String, String)],
        input: &[u8],
    ) -> Self {
        let mut command = Command::new(root().join("tests/examples").join(file));
        command.args(arguments);
        Self::end(command, settings, input, &format!("{file} {arguments:?}")).await
    }

    async fn end(mut command: Command, settings: &[(String, String)], input: &[u8], what: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut pipe = child.stdin.take().expect("standard input is a pipe");
        // A program may end without reading its input.
        drop(pipe.write_all(input).await);
        drop(pipe);
        let output = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await;
        let output = output.unwrap_or_else(|_| panic!("{what} didn't end in {TIMEOUT:?}"));
        let output = output.unwrap_or_else(|error| panic!("{what}: {error}"));
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
