//! The settings of connect-console beside those of every service.

use crate::mails::{MailSettings, OptionalMails};
use crate::sign_in_settings::SignInSettings;
use common::egress::EgressSettings;
use common::http::{ConnectionTimes, TrustedProxies};
use common::settings::{ConsoleSettings, Environment, Section, SettingError, TenantBounds, Variable, error};
use common::variables;
use hyper::Uri;

/// All settings that the console reads beside those of every service.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) egress: EgressSettings,
    pub(crate) bounds: TenantBounds,
    pub(crate) console: ConsoleSettings,
    pub(crate) times: ConnectionTimes,
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) sign_in: SignInSettings,
    pub(crate) mails: Option<MailSettings>,
    /// Base URL of the API, for the samples.
    pub(crate) api_url: String,
}

impl Section for Settings {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_CONSOLE_API_URL" => "http://127.0.0.1:8080", "base URL of the API, for the samples that the settings area shows with a new key";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        const API_URL: &str = "CONNECT_CONSOLE_API_URL";
        let api_url: String = env.get::<Self, _>(API_URL)?;
        let api_url = api_url.trim_end_matches('/');
        let parsed = api_url.parse::<Uri>().ok();
        let is_url = |url: Uri| matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some();
        // The samples contain it between quotation marks.
        if !parsed.is_some_and(is_url) || api_url.contains(['\'', '"', '\\', '$', '`']) {
            return Err(error(API_URL, "must be a URL such as https://connect.example.com"));
        }
        Ok(Self {
            egress: EgressSettings::from_env(env)?,
            bounds: TenantBounds::from_env(env)?,
            console: ConsoleSettings::from_env(env)?,
            times: ConnectionTimes::from_env(env)?,
            trusted_proxies: TrustedProxies::from_env(env)?,
            sign_in: SignInSettings::from_env(env)?,
            mails: OptionalMails::from_env(env)?.0,
            api_url: api_url.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_kept_for_longer_than_by_load_balancers() {
        let times = Settings::from_env(&Environment::from_pairs(&[])).unwrap().times;
        assert_eq!((times.head.as_secs(), times.idle.as_secs()), (10, 75));
    }

    #[test]
    fn the_api_url_cannot_end_a_quotation_in_a_sample() {
        let read = |url| Settings::from_env(&Environment::from_pairs(&[("CONNECT_CONSOLE_API_URL", url)]));
        assert_eq!(read("https://connect.example.com/").unwrap().api_url, "https://connect.example.com");
        for wrong in ["connect.example.com", "https://a/'", "https://a/$(id)", "ftp://a"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
