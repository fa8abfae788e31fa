//! The OpenID Connect provider: its discovery document, the authorization URL, and the exchange of the authorization code.

use super::claims::{self, OidcClient, TokenResponse};
use super::settings::OidcSettings;
use super::transport::{Transport, TransportError, is_allowed};
use super::verify_token::verify_token;
use admin::console::{PendingSignIn, VerifiedPerson};
use common::limited;
use common::log_limit::LogLimit;
use common::settings::ConsoleUrl;
use hyper::Uri;
use openidconnect::core::{CoreAuthenticationFlow, CoreClientAuthMethod, CoreProviderMetadata};
use openidconnect::{
    AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken, DiscoveryError,
    Nonce, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, SignatureVerificationError,
};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::sync::Mutex;

/// The path of the page that the provider redirects to.
const CALLBACK: &str = "/sign-in/oidc/callback";
/// How long a discovery document and the keys that it names are used.
const FRESH: Duration = Duration::from_secs(60 * 60);
/// How long they are used if reading them again fails. The limit exists because a provider may withdraw a key.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest time between two attempts to read them, whether the last one failed or a token is signed with an unknown key.
const REREAD_INTERVAL: Duration = Duration::from_secs(5);
/// Limits the log lines about discovery documents that cannot be read.
static DISCOVERY_FAILED: LogLimit<1> = LogLimit::new();

/// Longest text of an error that is kept, in characters.
const ERROR_MAX: usize = 300;

/// Why a person cannot sign in through the provider.
#[derive(Clone, Debug, Error)]
pub(crate) enum ProviderError {
    /// The provider does not respond, or its responses cannot be used.
    #[error("{0}")]
    Unavailable(String),
    /// The provider refuses the code, or its token is not valid for this sign-in.
    #[error("{0}")]
    Refused(String),
}

/// The provider of the settings.
#[derive(Debug)]
pub(crate) struct Provider {
    settings: OidcSettings,
    redirect: RedirectUrl,
    transport: Transport,
    discovered: Mutex<Discovered>,
}

/// The results of reading the discovery document.
#[derive(Clone, Debug, Default)]
struct Discovered {
    /// The last document that was read, with the keys, and when.
    metadata: Option<(Instant, Arc<CoreProviderMetadata>)>,
    /// The last failure after that.
    failure: Option<(Instant, ProviderError)>,
}

impl Provider {
    /// Reads nothing of the provider yet: the console starts without it. The error names the wrong setting.
    pub(crate) fn new(settings: OidcSettings, console: &ConsoleUrl) -> Result<Self, String> {
        let transport = Transport::new(&settings)?;
        let redirect = RedirectUrl::new(format!("{console}{CALLBACK}")).map_err(|error| error.to_string())?;
        Ok(Self { settings, redirect, transport, discovered: Mutex::default() })
    }

    /// The provider's host, for the sign-in page.
    pub(crate) fn host(&self) -> String {
        self.settings.host()
    }

    /// The issuer, which a provider may repeat in its redirect (RFC 9207).
    pub(crate) fn issuer(&self) -> &str {
        self.settings.issuer.as_str()
    }

    /// The URL at the provider to which the browser is sent.
    pub(crate) async fn authorization_url(&self, pending: &PendingSignIn) -> Result<String, ProviderError> {
        let client = self.client(FRESH).await?;
        let verifier = PkceCodeVerifier::new(pending.verifier.clone());
        let (state, nonce) = (CsrfToken::new(pending.state.clone()), Nonce::new(pending.nonce.clone()));
        let (url, _, _) = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, || state, || nonce)
            .add_scopes(self.settings.scopes.iter().cloned())
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .url();
        let is_usable =
            url.as_str().parse::<Uri>().is_ok_and(|url| is_allowed(&url, self.settings.is_local()));
        if !is_usable {
            return Err(ProviderError::Unavailable("its authorization endpoint is not https".to_owned()));
        }
        Ok(url.into())
    }

    /// Redeems the code that the provider has sent for a sign-in, and verifies who it is.
    pub(crate) async fn person(
        &self,
        pending: &PendingSignIn,
        code: &str,
    ) -> Result<VerifiedPerson, ProviderError> {
        let client = self.client(FRESH).await?;
        let response = self.redeem(&client, pending, code).await?;
        let nonce = Nonce::new(pending.nonce.clone());
        let verified = match verify_token(&client, &response, &nonce) {
            // The provider may have new keys.
            Err(ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey,
            )) => verify_token(&self.client(REREAD_INTERVAL).await?, &response, &nonce),
            verified => verified,
        };
        let claims = verified.map_err(|error| ProviderError::Refused(describe(&error)))?;
        claims::person(&claims, &self.settings.groups_claim)
            .map_err(|error| ProviderError::Refused(describe(&error)))
    }

    async fn redeem(
        &self,
        client: &OidcClient,
        pending: &PendingSignIn,
        code: &str,
    ) -> Result<TokenResponse, ProviderError> {
        let request = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .map_err(|error| ProviderError::Unavailable(describe(&error)))?
            .set_pkce_verifier(PkceCodeVerifier::new(pending.verifier.clone()));
        request.request_async(&self.transport).await.map_err(|error| match error {
            RequestTokenError::ServerResponse(_) => ProviderError::Refused(describe(&error)),
            RequestTokenError::Request(_) | RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                ProviderError::Unavailable(describe(&error))
            }
        })
    }

    /// The client for requests to the provider, made from a discovery document that is at most `max_age` old, or from the last one
    /// if it cannot be read again.
    async fn client(&self, max_age: Duration) -> Result<OidcClient, ProviderError> {
        let metadata = self.metadata(max_age).await?;
        let client = OidcClient::from_provider_metadata(
            (*metadata).clone(),
            ClientId::new(self.settings.client_id.clone()),
            Some(ClientSecret::new(self.settings.client_secret.reveal().to_owned())),
        );
        Ok(client.set_redirect_uri(self.redirect.clone()).set_auth_type(auth_type(&metadata)))
    }

    /// The discovery document and the keys, read again if they are older than `max_age`. While that fails the last ones are used
    /// for [`STALE`]. One request reads them at a time; the others wait, and use what it has read.
    async fn metadata(&self, max_age: Duration) -> Result<Arc<CoreProviderMetadata>, ProviderError> {
        let mut discovered = self.discovered.lock().await;
        if let Some((at, metadata)) = &discovered.metadata
            && at.elapsed() < max_age
        {
            return Ok(Arc::clone(metadata));
        }
        if let Some((at, error)) = discovered.failure.clone()
            && at.elapsed() < REREAD_INTERVAL
        {
            return discovered.not_stale().ok_or(error);
        }
        match CoreProviderMetadata::discover_async(self.settings.issuer.clone(), &self.transport).await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                let read = Some((Instant::now(), Arc::clone(&metadata)));
                *discovered = Discovered { metadata: read, failure: None };
                Ok(metadata)
            }
            Err(error) => {
                let error: DiscoveryError<TransportError> = error;
                let error = ProviderError::Unavailable(describe(&error));
                limited!(DISCOVERY_FAILED[0], warn, %error, "reading the discovery document of the OpenID Connect provider failed; using the last one if it is less than a day old, otherwise refusing sign-ins");
                discovered.failure = Some((Instant::now(), error.clone()));
                discovered.not_stale().ok_or(error)
            }
        }
    }
}

impl Discovered {
    /// The last document, if it may still be used without being read again.
    fn not_stale(&self) -> Option<Arc<CoreProviderMetadata>> {
        let (at, metadata) = self.metadata.as_ref()?;
        (at.elapsed() < STALE).then(|| Arc::clone(metadata))
    }
}

/// How the console sends its client secret: in a header, unless the provider accepts it only in the body.
fn auth_type(metadata: &CoreProviderMetadata) -> AuthType {
    let methods = metadata.token_endpoint_auth_methods_supported();
    let takes = |method| methods.is_none_or(|methods| methods.contains(&method));
    if !takes(CoreClientAuthMethod::ClientSecretBasic) && takes(CoreClientAuthMethod::ClientSecretPost) {
        AuthType::RequestBody
    } else {
        AuthType::BasicAuth
    }
}

/// An error with its causes, bounded. The errors of the library contain no token.
pub(super) fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(ERROR_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::sealed::Secret;
    use openidconnect::IssuerUrl;
    use serde_json::json;

    /// A provider that does not respond.
    fn provider() -> Provider {
        let settings = OidcSettings {
            issuer: IssuerUrl::new("http://127.0.0.1:9".to_owned()).unwrap(),
            client_id: "connect".to_owned(),
            client_secret: Secret::new("secret".to_owned()),
            scopes: Vec::new(),
            groups_claim: "groups".to_owned(),
            ca_file: None,
        };
        Provider::new(settings, &ConsoleUrl::of("127.0.0.1:8090".parse().unwrap())).unwrap()
    }

    fn document() -> Arc<CoreProviderMetadata> {
        let document = json!({
            "issuer": "http://127.0.0.1:9",
            "authorization_endpoint": "http://127.0.0.1:9/authorize",
            "token_endpoint": "http://127.0.0.1:9/token",
            "jwks_uri": "http://127.0.0.1:9/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["EdDSA"],
        });
        Arc::new(serde_json::from_value(document).unwrap())
    }

    #[tokio::test]
    async fn the_last_document_is_used_while_it_cannot_be_read_again() {
        let provider = provider();
        assert!(matches!(provider.metadata(FRESH).await, Err(ProviderError::Unavailable(_))));
        let read = Some((Instant::now(), document()));
        *provider.discovered.lock().await = Discovered { metadata: read, failure: None };
        for _ in 0..2 {
            let found = provider.metadata(Duration::ZERO).await.unwrap();
            assert_eq!(found.issuer().as_str(), "http://127.0.0.1:9");
            assert!(provider.discovered.lock().await.failure.is_some(), "reading it again failed");
        }
    }
}
