//! How receivers are reached.

use common::egress::EgressSettings;
use common::settings::{Environment, Section, SettingError, Variable};
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// How receivers are reached.
#[derive(Clone, Debug)]
pub struct SenderSettings {
    /// All the time that an attempt has, from resolving the name to the status.
    pub timeout: Duration,
    /// Which receivers may be reached (D27).
    pub egress: EgressSettings,
    /// Root certificates (PEM) beside the system's.
    pub ca_file: Option<PathBuf>,
}

impl Section for SenderSettings {
    /// Without those of [`EgressSettings`], which it reads as well.
    const VARIABLES: &'static [Variable] = &[
        Variable {
            name: "CONNECT_WEBHOOK_TIMEOUT",
            default: Some("10s"),
            help: "how long a receiver may take to answer, name look-up and connecting included",
        },
        Variable {
            name: "CONNECT_WEBHOOK_CA_FILE",
            default: Some(""),
            help: "file of extra root certificates (PEM) for receivers, beside the system's",
        },
    ];

    fn read(env: &Environment) -> Result<Self, SettingError> {
        let ca_file: Option<String> = env.optional::<Self, _>("CONNECT_WEBHOOK_CA_FILE")?;
        Ok(Self {
            timeout: env.get::<Self, _>("CONNECT_WEBHOOK_TIMEOUT")?,
            egress: EgressSettings::read(env)?,
            ca_file: ca_file.map(PathBuf::from),
        })
    }
}

/// Why there is no sender.
#[derive(Debug, Error)]
pub enum SenderError {
    /// The extra root certificates can't be read. Names the setting.
    #[error("setting CONNECT_WEBHOOK_CA_FILE: {0}")]
    CaFile(String),
    /// The TLS library refuses its settings.
    #[error("TLS can't be set up: {0}")]
    Tls(#[from] rustls::Error),
}
