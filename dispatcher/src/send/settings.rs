//! Settings of the sender.

use common::egress::EgressSettings;
use common::settings::{Environment, Section, SettingError, Variable, error};
use common::variables;
use rustls::ClientConfig;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The setting with the operator's own root certificates.
pub(super) const CA_FILE: &str = "CONNECT_WEBHOOK_CA_FILE";

/// Settings of the sender.
#[derive(Clone, Debug)]
pub struct SenderSettings {
    /// Longest duration of an attempt, from resolving the name to the status.
    pub timeout: Duration,
    /// Which receivers may be reached (D27).
    pub egress: EgressSettings,
    /// Trusts the system's root certificates and the operator's own.
    pub tls: Arc<ClientConfig>,
}

impl Section for SenderSettings {
    /// Without those of [`EgressSettings`], which it reads as well.
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_WEBHOOK_TIMEOUT" => "10s", "how long a receiver may take to respond, including name resolution and connecting";
        CA_FILE => optional, "file of root certificates (PEM) for receivers, in addition to the system's";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let ca_file: Option<String> = env.optional::<Self, _>(CA_FILE)?;
        Ok(Self {
            timeout: env.get::<Self, _>("CONNECT_WEBHOOK_TIMEOUT")?,
            egress: EgressSettings::from_env(env)?,
            tls: super::tls::client(ca_file.as_deref().map(Path::new)).map_err(|what| error(CA_FILE, &what))?,
        })
    }
}
