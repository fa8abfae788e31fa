//! The provider and the console's account there.

use common::sealed::Secret;
use common::settings::{Environment, Section, SettingError, Variable, error, is_loopback};
use common::variables;
use openidconnect::{IssuerUrl, Scope};
use std::path::PathBuf;

const ISSUER: &str = "CONNECT_OIDC_ISSUER";
const CLIENT_ID: &str = "CONNECT_OIDC_CLIENT_ID";
const CLIENT_SECRET: &str = "CONNECT_OIDC_CLIENT_SECRET";
const SCOPES: &str = "CONNECT_OIDC_SCOPES";
const GROUPS_CLAIM: &str = "CONNECT_OIDC_GROUPS_CLAIM";
pub(super) const CA_FILE: &str = "CONNECT_OIDC_CA_FILE";

/// A provider, and the console's account there.
#[derive(Clone, Debug)]
pub(crate) struct OidcSettings {
    pub(crate) issuer: IssuerUrl,
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret,
    /// Scopes beside `openid`.
    pub(crate) scopes: Vec<Scope>,
    pub(crate) groups_claim: String,
    pub(crate) ca_file: Option<PathBuf>,
}

/// The settings of a provider; `None` if none is set.
#[derive(Clone, Debug)]
pub(crate) struct OptionalOidcSettings(pub(crate) Option<OidcSettings>);

impl OidcSettings {
    /// Whether the issuer is a program of this machine without TLS, for development.
    pub(crate) fn is_local(&self) -> bool {
        self.issuer.url().scheme() == "http"
    }

    /// The provider's host, as the sign-in page names it.
    pub(crate) fn host(&self) -> String {
        self.issuer.url().host_str().unwrap_or_default().to_owned()
    }
}

impl Section for OptionalOidcSettings {
    const VARIABLES: &'static [Variable] = variables! {
        ISSUER => optional, "URL of the OpenID Connect provider for sign-in to the settings area, such as https://login.example.com/realms/acme, as in its discovery document; http:// is allowed for loopback hosts only";
        CLIENT_ID => optional, "client id of the settings area at the OpenID Connect provider";
        CLIENT_SECRET => optional, "client secret of the settings area at the OpenID Connect provider";
        SCOPES => "email profile", "scopes that the settings area asks the OpenID Connect provider for, beside openid, separated by spaces; some providers need groups";
        GROUPS_CLAIM => "groups", "claim of the ID token with the names of the person's groups";
        CA_FILE => optional, "file of root certificates (PEM) for the OpenID Connect provider, in addition to the system's";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let optional = |name| env.optional::<Self, String>(name);
        let scopes: String = env.get::<Self, _>(SCOPES)?;
        let groups_claim: String = env.get::<Self, _>(GROUPS_CLAIM)?;
        let ca_file = optional(CA_FILE)?.map(PathBuf::from);
        let (issuer, client_id, client_secret) =
            match (optional(ISSUER)?, optional(CLIENT_ID)?, optional(CLIENT_SECRET)?) {
                (None, None, None) => return Ok(Self(None)),
                (Some(issuer), Some(id), Some(secret)) => (issuer, id, secret),
                (None, _, _) => return Err(missing(ISSUER)),
                (_, None, _) => return Err(missing(CLIENT_ID)),
                (_, _, None) => return Err(missing(CLIENT_SECRET)),
            };
        Ok(Self(Some(OidcSettings {
            issuer: parse_issuer(&issuer)?,
            client_id,
            client_secret: Secret::new(client_secret),
            scopes: scopes.split_whitespace().map(|scope| Scope::new(scope.to_owned())).collect(),
            groups_claim,
            ca_file,
        })))
    }
}

fn missing(name: &str) -> SettingError {
    error(
        name,
        &format!("is required: set {ISSUER}, {CLIENT_ID} and {CLIENT_SECRET} together, or none of them"),
    )
}

fn parse_issuer(text: &str) -> Result<IssuerUrl, SettingError> {
    let wrong = || {
        error(
            ISSUER,
            "must be a URL such as https://login.example.com; http:// is allowed for loopback hosts only",
        )
    };
    let issuer = IssuerUrl::new(text.to_owned()).map_err(|_| wrong())?;
    let url = issuer.url();
    let host = url.host_str().ok_or_else(wrong)?;
    let is_allowed = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(host));
    let is_plain = url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if is_allowed && is_plain { Ok(issuer) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<OidcSettings>, SettingError> {
        OptionalOidcSettings::from_env(&Environment::from_pairs(pairs)).map(|read| read.0)
    }

    #[test]
    fn a_provider_needs_issuer_client_and_secret() {
        let all =
            [(ISSUER, "https://login.example.com/realms/a"), (CLIENT_ID, "connect"), (CLIENT_SECRET, "s")];
        let settings = read(&all).unwrap().unwrap();
        assert_eq!((settings.host().as_str(), settings.is_local()), ("login.example.com", false));
        assert_eq!(settings.groups_claim, "groups");
        assert_eq!(settings.issuer.as_str(), "https://login.example.com/realms/a");
        assert!(!format!("{settings:?}").contains("\"s\""), "the secret is not printed");
        assert!(read(&[]).unwrap().is_none());
        for missing in 0..all.len() {
            let mut some = all.to_vec();
            let (name, _) = some.remove(missing);
            assert_eq!(read(&some).unwrap_err().name, name);
        }
    }

    #[test]
    fn an_issuer_has_tls_or_is_on_this_machine() {
        let issuer = |issuer| read(&[(ISSUER, issuer), (CLIENT_ID, "connect"), (CLIENT_SECRET, "s")]);
        for right in
            ["https://login.example.com", "http://127.0.0.1:9400", "http://localhost:9400", "http://[::1]:1"]
        {
            assert!(issuer(right).is_ok(), "{right}");
        }
        for wrong in [
            "login.example.com",
            "http://login.example.com",
            "http://127.0.0.1.example.com",
            "https://a:b@login.example.com",
            "https://login.example.com/?a",
            "https://login.example.com/#a",
            "ftp://localhost",
        ] {
            assert!(issuer(wrong).is_err(), "{wrong}");
        }
    }
}
