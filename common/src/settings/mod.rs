//! Settings from the environment, in sections that are named for what they configure. Each section declares its variables once; parsing and `--help`
//! follow from that declaration, and a test compares them with the table in docs/settings.md.

mod bounds;
mod broker_urls;
mod console;
mod database_tls;
mod database_url;
mod mailboxes;
mod networks;
mod retention;
mod sections;
mod servers;
mod value;

pub use bounds::{Bound, TenantBounds};
pub use broker_urls::BrokerUrls;
pub(crate) use broker_urls::{BrokerTls, BrokerUrl, NAMES as BROKER_TLS_NAMES};
pub use console::{CONSOLE_URL, ConsoleSettings, ConsoleUrl, is_loopback};
pub(crate) use database_tls::NAMES as DATABASE_TLS_NAMES;
pub use database_url::DatabaseUrl;
pub use mailboxes::MailboxSettings;
pub use networks::Networks;
pub use retention::{RetentionPeriod, RetentionSettings};
pub use sections::{BrokerSettings, DatabaseSettings, LogSettings, SealingSettings, ServiceSettings, TraceSettings};
pub(crate) use servers::places_from;
pub use value::{ByteSize, SettingValue};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use textwrap::{Options, WordSplitter, fill};
use thiserror::Error;

/// An environment variable that a setting is read from.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// The variable's name, in upper case.
    pub name: &'static str,
    /// The default; `None` for a required variable, empty for an optional one.
    pub default: Option<&'static str>,
    /// Purpose and unit, for `--help`.
    pub help: &'static str,
}

/// Declares variables, each with its name, default and help: `"CONNECT_LOG" => "json", "format of the log";`. Instead of a default,
/// `required` or `optional`.
#[macro_export]
macro_rules! variables {
    (@default required) => { None };
    (@default optional) => { Some("") };
    (@default $default:literal) => { Some($default) };
    ($($name:expr => $default:tt, $help:expr;)*) => {
        &[$($crate::settings::Variable {
            name: $name,
            default: $crate::variables!(@default $default),
            help: $help,
        }),*]
    };
}

/// A group of settings that belong together.
pub trait Section: Sized {
    /// The variables it reads.
    const VARIABLES: &'static [Variable];
    /// Reads and checks them.
    fn from_env(env: &Environment) -> Result<Self, SettingError>;
}

/// A setting that is missing or malformed; displayed as one line that names it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("setting {name}: {what}")]
pub struct SettingError {
    /// The name, such as `CONNECT_LOG`.
    pub name: String,
    /// What is wrong and what is expected; never the value, which may be a secret.
    pub what: String,
}

/// The environment a program was started with.
#[derive(Debug)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment of this process.
    #[expect(clippy::disallowed_methods, reason = "settings are read here and nowhere else")]
    pub fn from_process() -> Self {
        Self(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect())
    }

    /// The names of its variables, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// An environment of the given pairs, for tests.
    pub fn from_pairs(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    /// The value of `name`, which `section` declares, or its default.
    pub fn get<S: Section, T: SettingValue>(&self, name: &str) -> Result<T, SettingError> {
        self.optional::<S, T>(name)?.ok_or_else(|| error(name, "is required"))
    }

    /// [`get`](Self::get) for a whole number from 1 to `most`.
    pub fn up_to<S: Section>(&self, name: &str, most: u32) -> Result<u32, SettingError> {
        let text: String = self.get::<S, _>(name)?;
        let number = text.parse::<u32>().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| error(name, &format!("must be a whole number from 1 to {most}")))
    }

    /// [`get`](Self::get) for a variable that may be left out.
    pub fn optional<S: Section, T: SettingValue>(&self, name: &str) -> Result<Option<T>, SettingError> {
        let variable = S::VARIABLES.iter().find(|variable| variable.name == name).expect("a declared variable");
        let default = variable.default.filter(|default| !default.is_empty()).map(str::to_owned);
        match self.written(name)?.or(default) {
            Some(text) => T::parse_setting(&text).map(Some).map_err(|what| error(name, &what)),
            None => Ok(None),
        }
    }

    /// The error of the value of `name`, if it is set and not of the type of which `default` is.
    pub fn type_error(&self, name: &str, default: &str) -> Option<SettingError> {
        let types: [ParseCheck; 5] =
            [parses::<u32>, parses::<Duration>, parses::<ByteSize>, parses::<bool>, parses::<SocketAddr>];
        let parse = types.into_iter().find(|parse| parse(default).is_ok())?;
        let written = self.written(name).transpose()?;
        // The bounds are those of the type, and the program may have others.
        let refused = |what: String| error(name, what.split(" from 1 to ").next().unwrap_or_default());
        written.and_then(|text| parse(&text).map_err(refused)).err()
    }

    /// What was set for `name`: the variable, or the content of the file that `<name>_FILE` names, without surrounding blanks.
    fn written(&self, name: &str) -> Result<Option<String>, SettingError> {
        let value = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        let variable = |name: &str| self.0.get(name).and_then(|text| value(text));
        let file = format!("{name}_FILE");
        match (variable(name), variable(&file)) {
            (written, None) => Ok(written),
            (Some(_), Some(_)) => Err(error(&file, &format!("cannot be combined with {name}"))),
            // The path is not repeated: somebody may have set the secret itself.
            (None, Some(path)) => std::fs::read_to_string(path)
                .map(|text| value(&text))
                .map_err(|failed| error(&file, &format!("must be a readable file: {failed}"))),
        }
    }
}

type ParseCheck = fn(&str) -> Result<(), String>;

fn parses<T: SettingValue>(text: &str) -> Result<(), String> {
    T::parse_setting(text).map(|_| ())
}

/// The error of the setting `name`.
pub fn error(name: &str, what: &str) -> SettingError {
    SettingError { name: name.to_owned(), what: what.to_owned() }
}

/// How settings are set, for help texts.
pub const SETTINGS_NOTE: &str = "Settings are environment variables; NAME_FILE is a file with the value of NAME";

/// The text of `--help`: what the program does and all its settings.
fn help(program: &str, about: &str, variables: &[&Variable]) -> String {
    let mut text = format!("{program}: {about}\n\n{SETTINGS_NOTE}:\n");
    for variable in variables {
        let default = default_text(variable.default);
        let options = Options::new(80).initial_indent("      ").subsequent_indent("      ");
        let help = fill(variable.help, options.break_words(false).word_splitter(WordSplitter::NoHyphenation));
        text.push_str(&format!("\n  {} ({default})\n{help}\n", variable.name));
    }
    text
}

/// The default of a [`Variable`] as help texts have it: `required`, `optional` or `default ...`.
pub fn default_text(default: Option<&str>) -> String {
    match default {
        None => "required".to_owned(),
        Some("") => "optional".to_owned(),
        Some(default) => format!("default {default}"),
    }
}

/// Handles `--help` and `--version`, which are printed on standard output. Returns `true` when the program should end; the
/// error names an unknown argument.
pub(crate) fn handle_arguments(program: &str, about: &str, variables: &[&Variable]) -> Result<bool, String> {
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
