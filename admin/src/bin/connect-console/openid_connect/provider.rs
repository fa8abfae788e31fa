//! The OpenID Connect provider: its discovery document, the authorization URL, and the exchange of the authorization code.
//!
//! Of its answers only the fields that the console needs are read, so the others may have any type (D43).

use super::claims;
use super::id_token::{self, SignedToken};
use super::settings::OidcSettings;
use super::transport::{Transport, is_allowed};
use admin::console::{PendingSignIn, VerifiedPerson};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chrono::DateTime;
use common::log_limit::LogLimit;
use common::settings::ConsoleUrl;
use common::{clock, limited};
use form_urlencoded::{Serializer, byte_serialize};
use openidconnect::core::CoreJsonWebKey;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::sync::Mutex;
use url::Url;

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
    /// The provider does not respond, or not now: 5xx and 429. Trying again later helps.
    #[error("{0}")]
    Unavailable(String),
    /// A field of its answer cannot be used, now or later (D43).
    #[error("the provider's answer can't be used: {field}: {why}")]
    Unusable { field: &'static str, why: String },
    /// The provider refuses the code, or its token is not valid for this sign-in.
    #[error("{0}")]
    Refused(String),
}

impl ProviderError {
    pub(super) fn unusable(field: &'static str, why: &str) -> Self {
        Self::Unusable { field, why: bounded(why) }
    }
}

/// A text that may contain words of the provider, for the log.
fn bounded(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(ERROR_MAX).collect()
}

/// The provider of the settings.
#[derive(Debug)]
pub(crate) struct Provider {
    settings: OidcSettings,
    /// The URL that the provider redirects to.
    callback: String,
    transport: Transport,
    discovered: Mutex<Discovered>,
}

/// What the console needs of the discovery document, with the keys.
#[derive(Debug)]
struct Metadata {
    authorization_endpoint: Url,
    token_endpoint: Url,
    /// Whether the client secret is sent in the body of the token request, and not in a header.
    has_secret_in_body: bool,
    keys: Vec<CoreJsonWebKey>,
}

/// The results of reading the discovery document.
#[derive(Clone, Debug, Default)]
struct Discovered {
    /// The last document that was read, with the keys, and when.
    metadata: Option<(Instant, Arc<Metadata>)>,
    /// The last failure after that.
    failure: Option<(Instant, ProviderError)>,
}

impl Provider {
    /// Reads nothing of the provider yet: the console starts without it. The error names the wrong setting.
    pub(crate) fn new(settings: OidcSettings, console: &ConsoleUrl) -> Result<Self, String> {
        let transport = Transport::new(&settings)?;
        Ok(Self { settings, callback: format!("{console}{CALLBACK}"), transport, discovered: Mutex::default() })
    }

    /// The provider's host, for the sign-in page.
    pub(crate) fn host(&self) -> &str {
        self.settings.host()
    }

    /// The issuer, which a provider may repeat in its redirect (RFC 9207).
    pub(crate) fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    /// The URL at the provider to which the browser is sent.
    pub(crate) async fn authorization_url(&self, pending: &PendingSignIn) -> Result<String, ProviderError> {
        let mut url = self.metadata(FRESH).await?.authorization_endpoint.clone();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(pending.verifier.as_bytes()));
        url.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", &self.settings.client_id),
            ("state", &pending.state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("redirect_uri", &self.callback),
            ("scope", &self.settings.scopes),
            ("nonce", &pending.nonce),
        ]);
        Ok(url.into())
    }

    /// Redeems the code that the provider has sent for a sign-in, and verifies who it is.
    pub(crate) async fn person(&self, pending: &PendingSignIn, code: &str) -> Result<VerifiedPerson, ProviderError> {
        let metadata = self.metadata(FRESH).await?;
        let answer = self.redeem(&metadata, pending, code).await?;
        let token = SignedToken::parse(text(&answer, "id_token")?)?;
        let key = match token.key(&metadata.keys) {
            Some(key) => Some(key),
            // The provider may have new keys.
            None => token.key(&self.metadata(REREAD_INTERVAL).await?.keys),
        };
        let Some(key) = key else { return Err(self.unknown_key().await) };
        let claims = token.verified_claims(&key)?;
        let now = (clock::now() - DateTime::UNIX_EPOCH).as_seconds_f64();
        id_token::check(&claims, &self.settings, &pending.nonce, now)?;
        claims::person(&claims, &self.settings.groups_claim)
    }

    /// Why no key fits a token: perhaps the new ones cannot be read now.
    async fn unknown_key(&self) -> ProviderError {
        let failure = self.discovered.lock().await.failure.clone();
        let unknown = || ProviderError::unusable("kid", "must name a key of the provider");
        failure.map_or_else(unknown, |(_, error)| error)
    }

    /// The answer of the token endpoint to a code (RFC 6749, 4.1.3).
    async fn redeem(
        &self, metadata: &Metadata, pending: &PendingSignIn, code: &str,
    ) -> Result<Map<String, Value>, ProviderError> {
        let (id, secret) = (&self.settings.client_id, self.settings.client_secret.reveal());
        let mut form = Serializer::new(String::new());
        form.extend_pairs([
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.callback),
            ("code_verifier", &pending.verifier),
        ]);
        let authorization = if metadata.has_secret_in_body {
            form.extend_pairs([("client_id", id.as_str()), ("client_secret", secret)]);
            None
        } else {
            // Both are encoded before they are joined (RFC 6749, 2.3.1).
            let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            Some(format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)))))
        };
        let answer = self.transport.post(&metadata.token_endpoint, authorization, form.finish()).await?;
        let Some(error) = answer.get("error").filter(|error| !error.is_null()) else { return Ok(answer) };
        let description = answer.get("error_description").and_then(Value::as_str).unwrap_or_default();
        let described = bounded(&format!("the provider responded with {error} {description}"));
        if error == "invalid_grant" {
            Err(ProviderError::Refused(described))
        } else {
            Err(ProviderError::unusable("error", &described))
        }
    }

    /// The discovery document and the keys, read again if they are older than `max_age`. While that fails the last ones are used
    /// for [`STALE`]. One request reads them at a time; the others wait, and use what it has read.
    async fn metadata(&self, max_age: Duration) -> Result<Arc<Metadata>, ProviderError> {
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
        match self.discover().await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                let read = Some((Instant::now(), Arc::clone(&metadata)));
                *discovered = Discovered { metadata: read, failure: None };
                Ok(metadata)
            }
            Err(error) => {
                limited!(DISCOVERY_FAILED[0], warn, %error, "reading the discovery document of the OpenID Connect provider failed; using the last one if it is less than a day old, otherwise refusing sign-ins");
                discovered.failure = Some((Instant::now(), error.clone()));
                discovered.not_stale().ok_or(error)
            }
        }
    }

    async fn discover(&self) -> Result<Metadata, ProviderError> {
        let document = self.transport.get(&self.settings.discovery_url).await?;
        if text(&document, "issuer")? != self.issuer() {
            return Err(ProviderError::unusable("issuer", "must be CONNECT_OIDC_ISSUER"));
        }
        let endpoint = |field| {
            let url = text(&document, field)?.parse().ok();
            url.filter(|url| is_allowed(url, self.settings.is_local()))
                .ok_or_else(|| ProviderError::unusable(field, "must be an https URL"))
        };
        let (authorization_endpoint, token_endpoint) =
            (endpoint("authorization_endpoint")?, endpoint("token_endpoint")?);
        let methods = document.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
        let takes = |method| methods.is_none_or(|methods| methods.iter().any(|one| one == method));
        let keys = self.transport.get(&endpoint("jwks_uri")?).await?;
        let keys = keys.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or_else(|| ProviderError::unusable("keys", "must be a list"))?;
        Ok(Metadata {
            authorization_endpoint,
            token_endpoint,
            has_secret_in_body: !takes("client_secret_basic") && takes("client_secret_post"),
            keys: keys.iter().filter_map(id_token::key).collect(),
        })
    }
}

impl Discovered {
    /// The last document, if it may still be used without being read again.
    fn not_stale(&self) -> Option<Arc<Metadata>> {
        let (at, metadata) = self.metadata.as_ref()?;
        (at.elapsed() < STALE).then(|| Arc::clone(metadata))
    }
}

/// A field that must be a text.
fn text<'a>(answer: &'a Map<String, Value>, field: &'static str) -> Result<&'a str, ProviderError> {
    let value = answer.get(field).and_then(Value::as_str);
    value.ok_or_else(|| ProviderError::unusable(field, "must be a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_document_is_used_while_it_cannot_be_read_again() {
        let console = ConsoleUrl::of("127.0.0.1:8090".parse().unwrap());
        let provider = Provider::new(OidcSettings::for_tests(), &console).unwrap();
        assert!(matches!(provider.metadata(FRESH).await, Err(ProviderError::Unavailable(_))));
        let metadata = Arc::new(Metadata {
            authorization_endpoint: "http://127.0.0.1:9/authorize".parse().unwrap(),
            token_endpoint: "http://127.0.0.1:9/token".parse().unwrap(),
            has_secret_in_body: false,
            keys: Vec::new(),
        });
        let read = Some((Instant::now(), Arc::clone(&metadata)));
        *provider.discovered.lock().await = Discovered { metadata: read, failure: None };
        for _ in 0..2 {
            assert!(Arc::ptr_eq(&provider.metadata(Duration::ZERO).await.unwrap(), &metadata));
            assert!(provider.discovered.lock().await.failure.is_some(), "reading it again failed");
        }
        let unknown = provider.unknown_key().await;
        assert!(matches!(unknown, ProviderError::Unavailable(_)), "the new keys cannot be read: {unknown}");
    }
}
