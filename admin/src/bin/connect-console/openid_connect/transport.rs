//! HTTP to the provider.

use super::settings::OidcSettings;
use admin::http_client::{HttpClient, HttpError};
use bytes::Bytes;
use common::settings::is_loopback;
use http_body_util::Full;
use hyper::{Request, Uri};
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use std::pin::Pin;
use thiserror::Error;

/// A client that speaks TLS, except with a provider of this machine.
#[derive(Debug)]
pub(super) struct Transport {
    client: HttpClient,
    /// Whether unencrypted connections to this machine are allowed.
    is_local: bool,
}

/// Why there is no response.
#[derive(Debug, Error)]
pub(super) enum TransportError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the URL {0} is not https")]
    NotEncrypted(Uri),
}

impl Transport {
    /// The error says which setting is wrong.
    pub(super) fn new(settings: &OidcSettings) -> Result<Self, String> {
        let client = HttpClient::new(settings.ca_file.as_deref())
            .map_err(|error| format!("setting CONNECT_OIDC_CA_FILE: {error}"))?;
        Ok(Self { client, is_local: settings.is_local() })
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        // Also for the URLs in the discovery document.
        if !is_allowed(request.uri(), self.is_local) {
            return Err(TransportError::NotEncrypted(request.uri().clone()));
        }
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, Full::new(Bytes::from(body)));
        Ok(self.client.send(request).await?.map(|body| body.to_vec()))
    }
}

impl<'c> AsyncHttpClient<'c> for Transport {
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, TransportError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.exchange(request))
    }
}

/// Whether requests may be sent to, and people redirected to, a URL of the provider.
pub(super) fn is_allowed(url: &Uri, is_local: bool) -> bool {
    match (url.scheme_str(), url.host()) {
        (Some("https"), Some(_)) => true,
        (Some("http"), Some(host)) => is_local && is_loopback(host),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_the_provider_have_tls_unless_it_is_on_this_machine() {
        let allowed = |url: &str, is_local| is_allowed(&url.parse().unwrap(), is_local);
        assert!(allowed("https://login.example.com/token", false));
        assert!(allowed("http://127.0.0.1:9400/token", true));
        assert!(!allowed("http://127.0.0.1:9400/token", false), "of an issuer elsewhere");
        assert!(!allowed("http://login.example.com/token", true));
        assert!(!allowed("/token", true));
    }
}
