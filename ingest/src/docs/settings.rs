//! The settings of the page of the API's description.

use common::settings::{CONSOLE_URL, ConsoleUrl, Environment, Section, SettingError, Variable};

/// What the page offers beside the description.
#[derive(Clone, Debug, Default)]
pub(crate) struct DocsSettings {
    /// Whether the page can sign and send requests.
    pub(crate) try_it: bool,
    /// The settings area, if the page links to it.
    pub(crate) console_url: Option<ConsoleUrl>,
}

impl Section for DocsSettings {
    const VARIABLES: &'static [Variable] = &[
        Variable {
            name: "CONNECT_DOCS_TRY_IT",
            default: Some("false"),
            help: "whether the page /docs can sign and send requests, with a key that somebody pastes there; the key stays in the browser and is not stored",
        },
        CONSOLE_URL,
    ];

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self {
            try_it: env.get::<Self, _>("CONNECT_DOCS_TRY_IT")?,
            console_url: env.optional::<Self, ConsoleUrl>("CONNECT_CONSOLE_URL")?,
        })
    }
}
