//! Running programs that end by themselves, such as `connectctl`, and their output.

use crate::binaries::{binary, root, variable};
use crate::{MASTER_KEY, world};
use serde_json::Value;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

/// The words of a command line, none of which has a blank in it.
pub fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// `connectctl` with its settings.
#[derive(Clone, Debug)]
pub struct Connectctl {
    settings: Vec<(String, String)>,
}

impl Connectctl {
    /// `connectctl` with a database only, for commands that need no broker.
    pub fn for_database(url: &str) -> Self {
        let settings = [("DATABASE_URL", url), ("CONNECT_MASTER_KEY", MASTER_KEY)];
        Self::with(settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
    }

    /// `connectctl` with these settings and no others.
    pub fn with(settings: Vec<(String, String)>) -> Self {
        Self { settings }
    }

    /// Runs a command to its end, whatever its exit code.
    pub async fn run(&self, arguments: &[&str]) -> CommandOutput {
        let arguments: Vec<String> = arguments.iter().map(|argument| world::slug(argument)).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut ran = CommandOutput::of("connectctl", &arguments, &self.settings).await;
        ran.output = world::with_names(ran.output);
        ran.errors = world::with_names(ran.errors);
        ran
    }

    /// Starts a command. It is killed when the value is dropped.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(binary("connectctl"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.kill_on_drop(true).env_clear().envs(self.settings.iter().map(|(name, value)| (name, value)));
        command.spawn().unwrap_or_else(|error| panic!("connectctl {arguments:?}: {error}"))
    }

    /// Runs a command that must fail with exit code 1 and nothing on standard output. Returns the one line of its error.
    pub async fn refusal(&self, arguments: &[&str]) -> String {
        let ran = self.run(&[arguments, &["--json"]].concat()).await;
        assert_eq!((ran.code, ran.output.as_str()), (Some(1), ""), "connectctl {arguments:?}: {ran:?}");
        assert_eq!(ran.errors.lines().count(), 1, "connectctl {arguments:?}: {ran:?}");
        ran.errors
    }

    /// Runs a command that must fail as in [`refusal`](Self::refusal), with a line that contains `part`.
    pub async fn assert_refusal(&self, arguments: &[&str], part: &str) {
        let refusal = self.refusal(arguments).await;
        assert!(refusal.contains(part), "connectctl {arguments:?}: no {part:?} in {refusal}");
    }

    /// A copy without a setting.
    pub fn without(&self, name: &str) -> Self {
        let settings = self.settings.iter().filter(|(setting, _)| setting != name).cloned().collect();
        Self { settings }
    }

    /// A copy with one more setting.
    pub fn and(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs a command that must succeed, with `--json`, and returns the printed JSON.
    pub async fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat()).await;
        assert_eq!(ran.code, Some(0), "connectctl {arguments:?}: {}", ran.errors);
        ran.json()
    }

    /// [`json`](Self::json) of a command that prints an array.
    pub async fn list(&self, arguments: &[&str]) -> Vec<Value> {
        let printed = self.json(arguments).await;
        let items = printed.as_array().cloned();
        items.unwrap_or_else(|| panic!("connectctl {arguments:?} printed no array: {printed}"))
    }
}

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
        file: &str, arguments: &[impl AsRef<OsStr> + Debug], settings: &[(String, String)], input: &[u8],
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
