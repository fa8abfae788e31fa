//! Running `connectctl`.

use crate::MASTER_KEY;
use crate::binaries::binary;
use crate::command_output::CommandOutput;
use crate::world;
use serde_json::Value;
use std::process::Stdio;
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
