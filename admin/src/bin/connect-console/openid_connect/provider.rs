//! The provider: its discovery document, where people are sent, and the code that it sends them back with.

use super::claims::{self, OidcClient, TokenResponse};
use super::settings::OidcSettings;
use super::transport::{Transport, TransportError, is_allowed};
use super::verify_token::verify_token;
use admin::console::{PendingSignIn, VerifiedPerson};
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
/// How soon they are read again when a token is signed with an unknown key, and how long a failure to read them stands.
const RETRY_AFTER: Duration = Duration::from_secs(5);
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
    discovered: Mutex<Option<Discovered>>,
}

/// What the last attempt to read the discovery document has brought.
#[derive(Clone, Debug)]
struct Discovered {
    at: Instant,
    result: Result<Arc<CoreProviderMetadata>, ProviderError>,
}

impl Provider {
    /// Reads nothing of the provider yet: the console starts without it. The error names the wrong setting.
    pub(crate) fn new(settings: OidcSettings, console: &ConsoleUrl) -> Result<Self, String> {
        let transport = Transport::new(&settings)?;
        let redirect = RedirectUrl::new(format!("{console}{CALLBACK}")).map_err(|error| error.to_string())?;
        Ok(Self { settings, redirect, transport, discovered: Mutex::new(None) })
    }

    /// The provider's host, as people know it.
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
            )) => verify_token(&self.client(RETRY_AFTER).await?, &response, &nonce),
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

    /// The console's account, by a discovery document that is at most `max_age` old.
    async fn client(&self, max_age: Duration) -> Result<OidcClient, ProviderError> {
        let metadata = self.metadata(max_age).await?;
        let client = OidcClient::from_provider_metadata(
            (*metadata).clone(),
            ClientId::new(self.settings.client_id.clone()),
            Some(ClientSecret::new(self.settings.client_secret.reveal().to_owned())),
        );
        Ok(client.set_redirect_uri(self.redirect.clone()).set_auth_type(auth_type(&metadata)))
    }

    /// The discovery document and the keys. One request reads them at a time; the others wait, and use what it has read.
    async fn metadata(&self, max_age: Duration) -> Result<Arc<CoreProviderMetadata>, ProviderError> {
        let mut discovered = self.discovered.lock().await;
        if let Some(known) = &*discovered {
            let max_age = if known.result.is_ok() { max_age } else { RETRY_AFTER };
            if known.at.elapsed() < max_age {
                return known.result.clone();
            }
        }
        let found = CoreProviderMetadata::discover_async(self.settings.issuer.clone(), &self.transport).await;
        let result = found
            .map(Arc::new)
            .map_err(|error: DiscoveryError<TransportError>| ProviderError::Unavailable(describe(&error)));
        *discovered = Some(Discovered { at: Instant::now(), result: result.clone() });
        result
    }
}

/// How the console proves who it is: in a header, unless the provider only takes it in the body.
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
