//! The ways to sign in beside links. The settings of a provider are declared in `openid_connect::settings`, those of a proxy in `proxy`.

use crate::openid_connect::{OidcSettings, OptionalOidcSettings};
use crate::proxy::{OptionalProxy, Proxy};
use admin::console::GroupRoles;
use common::settings::{Environment, Section, SettingError, Variable, error};
use common::variables;

const GROUPS: &str = "CONNECT_OIDC_GROUPS";

/// The ways to sign in that need a mapping of groups, and the mapping.
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
