//! The worker's own settings.

use common::settings::{Environment, MailboxSettings, RetentionSettings, Section, SettingError, Variable, error};
use common::variables;

/// All settings that the worker reads beside those of every service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Lanes of the events queue, and of the records queue: units applied at the same time, 1 to 64.
    pub(crate) lanes: u32,
    /// Whether advisor actions without a MAC are accepted: the CRM does not have the master key.
    pub(crate) accepts_unsigned_actions: bool,
    /// Mailbox providers that are never a company's domain.
    pub(crate) mailboxes: MailboxSettings,
    /// How long settled rows and messages are kept.
    pub(crate) retention: RetentionSettings,
}

impl Section for Settings {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_WORKER_LANES" => "2", "units of events, and units of records writes, that one worker applies at the same time, 1 to 64 of each";
        "CONNECT_CRM_UNSIGNED" => "allow", "advisor actions without a MAC, as the CRM publishes them: allow or refuse; with refuse only connectctl advisor is accepted";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let accepts_unsigned_actions = match env.get::<Self, String>("CONNECT_CRM_UNSIGNED")?.as_str() {
            "allow" => true,
            "refuse" => false,
            _ => return Err(error("CONNECT_CRM_UNSIGNED", "must be allow or refuse")),
        };
        Ok(Self {
            lanes: env.up_to::<Self>("CONNECT_WORKER_LANES", 64)?,
            accepts_unsigned_actions,
            mailboxes: MailboxSettings::from_env(env)?,
            retention: RetentionSettings::from_env(env)?,
        })
    }
}
