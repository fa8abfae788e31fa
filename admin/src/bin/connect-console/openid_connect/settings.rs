//! The provider and the console's account there.

use super::transport::is_allowed;
use common::sealed::Secret;
use common::settings::{Environment, Section, SettingError, Variable, error};
use common::variables;
use std::path::PathBuf;
use url::Url;

const ISSUER: &str = "CONNECT_OIDC_ISSUER";
const CLIENT_ID: &str = "CONNECT_OIDC_CLIENT_ID";
const CLIENT_SECRET: &str = "CONNECT_OIDC_CLIENT_SECRET";
const AUDIENCES: &str = "CONNECT_OIDC_AUDIENCES";
const SCOPES: &str = "CONNECT_OIDC_SCOPES";
const GROUPS_CLAIM: &str = "CONNECT_OIDC_GROUPS_CLAIM";
pub(super) const CA_FILE: &str = "CONNECT_OIDC_CA_FILE";

/// A provider, and the console's account there.
#[derive(Clone, Debug)]
pub(crate) struct OidcSettings {
    /// As its documents and tokens name it.
    pub(crate) issuer: String,
    pub(crate) discovery_url: Url,
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret,
    /// Trusted audiences of ID tokens beside the client id.
    pub(crate) audiences: Vec<String>,
    /// Separated by spaces, with `openid`.
    pub(crate) scopes: String,
    pub(crate) groups_claim: String,
    pub(crate) ca_file: Option<PathBuf>,
}

/// The settings of a provider; `None` if none is set.
#[derive(Clone, Debug)]
pub(crate) struct OptionalOidcSettings(pub(crate) Option<OidcSettings>);

impl OidcSettings {
    /// Whether the issuer is a program of this machine without TLS, for development.
    pub(crate) fn is_local(&self) -> bool {
        self.discovery_url.scheme() == "http"
    }

    /// A provider that does not respond.
    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        let pairs = [(ISSUER, "http://127.0.0.1:9"), (CLIENT_ID, "connect"), (CLIENT_SECRET, "s")];
        let pairs = [&pairs[..], &[(AUDIENCES, "project-1, project-2,")]].concat();
        OptionalOidcSettings::from_env(&Environment::from_pairs(&pairs)).unwrap().0.unwrap()
    }

    /// The provider's host, as the sign-in page names it.
    pub(crate) fn host(&self) -> &str {
        self.discovery_url.host_str().unwrap_or_default()
    }
}

impl Section for OptionalOidcSettings {
    const VARIABLES: &'static [Variable] = variables! {
        ISSUER => optional, "URL of the OpenID Connect provider for sign-in to the settings area, such as https://login.example.com/realms/acme, as in its discovery document; http:// is allowed for loopback hosts only";
        CLIENT_ID => optional, "client id of the settings area at the OpenID Connect provider";
        CLIENT_SECRET => optional, "client secret of the settings area at the OpenID Connect provider";
        AUDIENCES => optional, "audiences, separated by commas, that an ID token may have beside the client id, such as the id of a Zitadel project; not needed if its claim azp is the client id";
        SCOPES => "email profile", "scopes that the settings area asks the OpenID Connect provider for, beside openid, separated by spaces; some providers need groups";
        GROUPS_CLAIM => "groups", "claim of the ID token with the names of the person's groups";
        CA_FILE => optional, "file of root certificates (PEM) for the OpenID Connect provider, in addition to the system's";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let optional = |name| env.optional::<Self, String>(name);
        let scopes: String = env.get::<Self, _>(SCOPES)?;
        let groups_claim: String = env.get::<Self, _>(GROUPS_CLAIM)?;
        let audiences = optional(AUDIENCES)?.unwrap_or_default();
        let audiences = audiences.split(',').map(str::trim);
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
            discovery_url: discovery_url(&issuer)?,
            issuer,
            client_id,
            client_secret: Secret::new(client_secret),
            audiences: audiences.filter(|audience| !audience.is_empty()).map(str::to_owned).collect(),
            scopes: ["openid"].into_iter().chain(scopes.split_whitespace()).collect::<Vec<_>>().join(" "),
            groups_claim,
            ca_file,
        })))
    }
}

fn missing(name: &str) -> SettingError {
    error(name, &format!("is required: set {ISSUER}, {CLIENT_ID} and {CLIENT_SECRET} together, or none of them"))
}

/// Where the discovery document of an issuer is.
fn discovery_url(issuer: &str) -> Result<Url, SettingError> {
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')).parse().ok();
    let is_usable = |url: &Url| {
        is_allowed(url, true)
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
    };
    url.filter(is_usable).ok_or_else(|| {
        error(ISSUER, "must be a URL such as https://login.example.com; http:// is allowed for loopback hosts only")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<OidcSettings>, SettingError> {
        OptionalOidcSettings::from_env(&Environment::from_pairs(pairs)).map(|read| read.0)
    }

    #[test]
    fn a_provider_needs_issuer_client_and_secret() {
        let all = [(ISSUER, "https://login.example.com/realms/a"), (CLIENT_ID, "connect"), (CLIENT_SECRET, "s")];
        let settings = read(&all).unwrap().unwrap();
        assert_eq!((settings.host(), settings.is_local()), ("login.example.com", false));
        assert_eq!((settings.groups_claim.as_str(), settings.audiences.len()), ("groups", 0));
        assert_eq!(settings.discovery_url.path(), "/realms/a/.well-known/openid-configuration");
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
        for right in ["https://login.example.com", "http://127.0.0.1:9400", "http://localhost:9400", "http://[::1]:1"] {
            assert!(issuer(right).is_ok(), "{right}");
        }
        for wrong in [
            "login.example.com", "http://login.example.com", "http://127.0.0.1.example.com",
            "https://a:b@login.example.com", "https://login.example.com/?a", "https://login.example.com/#a",
            "ftp://localhost",
        ] {
            assert!(issuer(wrong).is_err(), "{wrong}");
        }
    }
}
