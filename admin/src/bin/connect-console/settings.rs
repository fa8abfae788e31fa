//! The settings of connect-console beside those of every service.

use crate::mails::{MailSettings, OptionalMails};
use crate::openid_connect::{OidcSettings, OptionalOidcSettings};
use crate::proxy::{OptionalProxy, Proxy};
use admin::console::GroupRoles;
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

const GROUPS: &str = "CONNECT_OIDC_GROUPS";

/// The ways to sign in that need a mapping of groups, and the mapping. Their own settings are declared in `openid_connect::settings` and
/// `proxy`.
#[derive(Clone, Debug)]
pub(crate) struct SignInSettings {
    pub(crate) oidc: Option<OidcSettings>,
    pub(crate) proxy: Option<Proxy>,
    /// Empty exactly if there is neither a provider nor a proxy.
    pub(crate) groups: GroupRoles,
}

impl SignInSettings {
    /// All variables, for `--help`.
    pub(crate) const SECTIONS: [&'static [Variable]; 3] =
        [OptionalOidcSettings::VARIABLES, Self::VARIABLES, OptionalProxy::VARIABLES];
}

impl Section for SignInSettings {
    const VARIABLES: &'static [Variable] = variables! {
        GROUPS => optional, "rights of the groups of the OpenID Connect provider or of the proxy, as group=role[:tenant], separated by commas, such as connect-operators=operator,acme-admins=admin:acme,acme-staff=viewer:acme; the first entry whose group the person is in decides";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let OptionalOidcSettings(oidc) = OptionalOidcSettings::from_env(env)?;
        let OptionalProxy(proxy) = OptionalProxy::from_env(env)?;
        let groups = env.optional::<Self, GroupRoles>(GROUPS)?;
        let is_needed = oidc.is_some() || proxy.is_some();
        let groups = match groups {
            None if is_needed => {
                return Err(error(
                    GROUPS,
                    "is required with CONNECT_OIDC_ISSUER or CONNECT_CONSOLE_PROXY_USER_HEADER: without it nobody could sign in",
                ));
            }
            Some(_) if !is_needed => {
                return Err(error(GROUPS, "needs CONNECT_OIDC_ISSUER or CONNECT_CONSOLE_PROXY_USER_HEADER"));
            }
            groups => groups.unwrap_or_default(),
        };
        Ok(Self { oidc, proxy, groups })
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

    #[test]
    fn groups_are_set_exactly_with_a_way_to_sign_in_that_uses_them() {
        let read = |pairs: &[(&str, &str)]| SignInSettings::from_env(&Environment::from_pairs(pairs));
        let provider = [
            ("CONNECT_OIDC_ISSUER", "https://login.example.com"),
            ("CONNECT_OIDC_CLIENT_ID", "connect"),
            ("CONNECT_OIDC_CLIENT_SECRET", "s"),
        ];
        let proxy = [
            ("CONNECT_CONSOLE_PROXY_USER_HEADER", "X-User"),
            ("CONNECT_CONSOLE_PROXY_GROUPS_HEADER", "X-Groups"),
            ("CONNECT_CONSOLE_PROXY_NETWORKS", "10.0.0.0/8"),
        ];
        let groups = [(GROUPS, "ops=operator")];
        for way in [provider, proxy] {
            assert_eq!(read(&way).unwrap_err().name, GROUPS);
            assert!(read(&[&way[..], &groups].concat()).is_ok());
        }
        assert_eq!(read(&groups).unwrap_err().name, GROUPS);
        assert!(read(&[]).unwrap().oidc.is_none());
    }
}
