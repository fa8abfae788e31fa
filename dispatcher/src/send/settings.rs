//! Settings of the sender.

use common::egress::EgressSettings;
use common::settings::{Environment, Section, SettingError, Variable, error};
use common::variables;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// The setting with the operator's own root certificates.
pub(super) const CA_FILE: &str = "CONNECT_WEBHOOK_CA_FILE";

/// Settings of the sender.
#[derive(Clone, Debug)]
pub struct SenderSettings {
    /// Longest duration of an attempt, from resolving the name to the status.
    pub timeout: Duration,
    /// Which receivers may be reached (D27).
    pub egress: EgressSettings,
    /// File of root certificates (PEM) in addition to the system's.
    pub ca_file: Option<PathBuf>,
}

impl Section for SenderSettings {
    /// Without those of [`EgressSettings`], which it reads as well.
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_WEBHOOK_TIMEOUT" => "10s", "how long a receiver may take to respond, including name resolution and connecting";
        CA_FILE => optional, "file of root certificates (PEM) for receivers, in addition to the system's";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let ca_file: Option<String> = env.optional::<Self, _>(CA_FILE)?;
        let ca_file = ca_file.map(PathBuf::from);
        // Checked here, so that a wrong one ends the program before it does anything.
        if let Err(SenderError::CaFile(what)) = super::tls::client(ca_file.as_deref()) {
            return Err(error(CA_FILE, &what));
        }
        Ok(Self {
            timeout: env.get::<Self, _>("CONNECT_WEBHOOK_TIMEOUT")?,
            egress: EgressSettings::from_env(env)?,
            ca_file,
        })
    }
}

/// Why the sender cannot be created.
#[derive(Debug, Error)]
pub enum SenderError {
    /// The operator's root certificates cannot be read. The text names the setting.
    #[error("setting CONNECT_WEBHOOK_CA_FILE: {0}")]
    CaFile(String),
    /// The TLS library refuses its settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}
