//! Settings, from the environment, by noun. Each section declares its variables once; reading, `--help` and the
//! README's table (a test compares it) all come from that declaration.

mod broker_urls;
mod database_url;
mod sections;
mod value;

pub use broker_urls::BrokerUrls;
pub use database_url::DatabaseUrl;
pub use sections::{
    BrokerSettings, DatabaseSettings, LogSettings, MessageSettings, SealingSettings, ServiceSettings,
    TraceSettings,
};
pub use value::{ByteSize, SettingValue};

use std::collections::HashMap;
use thiserror::Error;

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its default; `None` when it must be set, empty when it may be left out.
    pub default: Option<&'static str>,
    /// What it is for, with its unit.
    pub help: &'static str,
}

/// A group of settings that belong together.
pub trait Section: Sized {
    /// The variables it reads.
    const VARIABLES: &'static [Variable];
    /// Reads and checks them.
    fn read(env: &Environment) -> Result<Self, SettingError>;
}

/// A setting that is missing or malformed. One line that names it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("setting {name}: {what}")]
pub struct SettingError {
    /// The variable.
    pub name: String,
    /// What is wrong with it; never its value, which may be a secret.
    pub what: String,
}

/// The environment a program was started with.
#[derive(Debug)]
pub struct Environment(HashMap<String, String>);

impl Environment {
    /// The process's own.
    #[expect(clippy::disallowed_methods, reason = "settings are read here and nowhere else")]
    pub fn of_process() -> Self {
        Self(
            std::env::vars_os()
                .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
                .collect(),
        )
    }

    /// One made of pairs, for tests.
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    /// The value of `name`, which `section` declares, or its default.
    pub fn get<S: Section, T: SettingValue>(&self, name: &str) -> Result<T, SettingError> {
        self.optional::<S, T>(name)?.ok_or_else(|| error(name, "is required"))
    }

    /// [`get`](Self::get) for a variable that may be left out.
    pub fn optional<S: Section, T: SettingValue>(&self, name: &str) -> Result<Option<T>, SettingError> {
        let variable =
            S::VARIABLES.iter().find(|variable| variable.name == name).expect("a declared variable");
        let set = self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        match set.or(variable.default.filter(|default| !default.is_empty())) {
            Some(text) => T::read(text).map(Some).map_err(|what| error(name, &what)),
            None => Ok(None),
        }
    }
}

/// A refusal of the setting `name`.
pub fn error(name: &str, what: &str) -> SettingError {
    SettingError { name: name.to_owned(), what: what.to_owned() }
}

/// The text of `--help`: what the program does and all its settings.
pub fn help(program: &str, about: &str, variables: &[&[Variable]]) -> String {
    let mut text = format!("{program}: {about}\n\nSettings are environment variables:\n");
    for variable in variables.iter().copied().flatten() {
        let default = match variable.default {
            None => "required".to_owned(),
            Some("") => "optional".to_owned(),
            Some(default) => format!("default {default}"),
        };
        text.push_str(&format!("\n  {} ({default})\n      {}\n", variable.name, variable.help));
    }
    text
}

/// Answers `--help` and `--version` on standard output. `true` when the program has nothing more to do;
/// the error names an argument it doesn't know.
pub fn answer_arguments(program: &str, about: &str, variables: &[&[Variable]]) -> Result<bool, String> {
    let Some(argument) = std::env::args().nth(1) else { return Ok(false) };
    match argument.as_str() {
        "-h" | "--help" => print!("{}", help(program, about, variables)),
        "-V" | "--version" => println!("{program} {}", env!("CARGO_PKG_VERSION")),
        other => {
            return Err(format!(
                "{program}: unknown argument {other:?}; settings are environment variables, see --help"
            ));
        }
    }
    Ok(true)
}
