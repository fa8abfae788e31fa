//! The settings of connect-console: its own section, and which of the shared ones it reads.

use crate::sign_in_settings::SignInSettings;
use admin::console::SessionLimits;
use chrono::TimeDelta;
use common::egress::EgressSettings;
use common::program::Program;
use common::settings::{
    BrokerSettings, ConsoleSettings, DatabaseSettings, Environment, LogSettings, SealingSettings, Section,
    ServiceSettings, SettingError, TraceSettings, Variable, error,
};
use hyper::Uri;
use std::time::Duration;

/// All settings of connect-console.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) database: DatabaseSettings,
    pub(crate) broker: BrokerSettings,
    pub(crate) sealing: SealingSettings,
    pub(crate) egress: EgressSettings,
    pub(crate) console: ConsoleSettings,
    pub(crate) pages: PageSettings,
    pub(crate) sign_in: SignInSettings,
    pub(crate) service: ServiceSettings,
    log: LogSettings,
    trace: TraceSettings,
}

/// The settings that only the console has.
#[derive(Clone, Debug)]
pub(crate) struct PageSettings {
    /// How long a session lasts.
    pub(crate) limits: SessionLimits,
    /// Base URL of the API, for the samples.
    pub(crate) api_url: String,
}

impl Program for Settings {
    const NAME: &'static str = "connect-console";
    const ABOUT: &'static str =
        "the settings area in the browser: keys, webhooks, deliveries and queues, for agencies and operators";
    const VARIABLES: &'static [&'static [Variable]] = &[
        DatabaseSettings::VARIABLES,
        BrokerSettings::VARIABLES,
        SealingSettings::VARIABLES,
        EgressSettings::VARIABLES,
        ConsoleSettings::VARIABLES,
        PageSettings::VARIABLES,
        SignInSettings::SECTIONS[0],
        SignInSettings::SECTIONS[1],
        SignInSettings::SECTIONS[2],
        ServiceSettings::VARIABLES,
        LogSettings::VARIABLES,
        TraceSettings::VARIABLES,
    ];

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self {
            database: DatabaseSettings::from_env(env)?,
            broker: BrokerSettings::from_env(env)?,
            sealing: SealingSettings::from_env(env)?,
            egress: EgressSettings::from_env(env)?,
            console: ConsoleSettings::from_env(env)?,
            pages: PageSettings::from_env(env)?,
            sign_in: SignInSettings::from_env(env)?,
            service: ServiceSettings::from_env(env)?,
            log: LogSettings::from_env(env)?,
            trace: TraceSettings::from_env(env)?,
        })
    }

    fn database(&self) -> Option<&DatabaseSettings> {
        Some(&self.database)
    }

    fn log(&self) -> &LogSettings {
        &self.log
    }

    fn trace(&self) -> &TraceSettings {
        &self.trace
    }
}

impl Section for PageSettings {
    const VARIABLES: &'static [Variable] = &[
        Variable {
            name: "CONNECT_CONSOLE_IDLE_TIMEOUT",
            default: Some("30m"),
            help: "how long a session of the settings area lasts without use",
        },
        Variable {
            name: "CONNECT_CONSOLE_SESSION_TIMEOUT",
            default: Some("12h"),
            help: "how long a session of the settings area lasts at most",
        },
        Variable {
            name: "CONNECT_CONSOLE_API_URL",
            default: Some("http://127.0.0.1:8080"),
            help: "base URL of the API, for the samples that the settings area shows with a new key",
        },
    ];

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        const API_URL: &str = "CONNECT_CONSOLE_API_URL";
        let duration = |name: &str| {
            let value: Duration = env.get::<Self, _>(name)?;
            TimeDelta::from_std(value).map_err(|wrong| error(name, &wrong.to_string()))
        };
        let api_url: String = env.get::<Self, _>(API_URL)?;
        let api_url = api_url.trim_end_matches('/');
        let parsed = api_url.parse::<Uri>().ok();
        let is_url = |url: Uri| matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some();
        // The samples contain it between quotation marks.
        if !parsed.is_some_and(is_url) || api_url.contains(['\'', '"', '\\', '$', '`']) {
            return Err(error(API_URL, "must be a URL such as https://connect.example.com"));
        }
        Ok(Self {
            limits: SessionLimits {
                idle: duration("CONNECT_CONSOLE_IDLE_TIMEOUT")?,
                absolute: duration("CONNECT_CONSOLE_SESSION_TIMEOUT")?,
            },
            api_url: api_url.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_url_cannot_end_a_quotation_in_a_sample() {
        let read =
            |url| PageSettings::from_env(&Environment::from_pairs(&[("CONNECT_CONSOLE_API_URL", url)]));
        assert_eq!(read("https://connect.example.com/").unwrap().api_url, "https://connect.example.com");
        for wrong in ["connect.example.com", "https://a/'", "https://a/$(id)", "ftp://a"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
