//! HTTP to the provider.

use super::settings::{CA_FILE, OidcSettings};
use bytes::Bytes;
use common::settings::is_loopback;
use common::tls::{TrustedRoots, explain_certificate_of};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use std::error::Error as StdError;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

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

/// Longest time that an exchange may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes of a response.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// A client that follows no redirects and ignores the proxy variables of the environment. It sends requests to `http://` as well;
/// the caller decides where that is allowed.
#[derive(Clone, Debug)]
struct HttpClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// Why there is no response.
#[derive(Debug, Error)]
pub(super) enum HttpError {
    /// The server was too slow.
    #[error("no response within {TIMEOUT:?}")]
    Timeout,
    /// The connection could not be made, or was lost.
    #[error("{0}")]
    Connection(String),
    /// The body was not read to its end.
    #[error("the response has more than {RESPONSE_BYTES_MAX} bytes")]
    TooLarge,
}

impl HttpClient {
    /// Trusts the system's root certificates and those of the file, which the error names.
    fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let mut roots = TrustedRoots::system();
        if let Some(path) = ca_file {
            roots.add_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let config = roots.client().map_err(|error| format!("TLS cannot be set up: {error}"))?;
        let config = config.with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build();
        Ok(Self(Client::builder(TokioExecutor::new()).build(connector)))
    }

    /// Sends a request and reads the whole response, whatever its status.
    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, HttpError> {
        timeout(TIMEOUT, self.exchange(request)).await.unwrap_or(Err(HttpError::Timeout))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, HttpError> {
        let response = self.0.request(request).await;
        let (parts, body) =
            response.map_err(|error| HttpError::Connection(with_causes(&error)))?.into_parts();
        let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                HttpError::TooLarge
            } else {
                HttpError::Connection(error.to_string())
            }
        })?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    }
}

/// The library's own text says only that there was no connection.
fn with_causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let tls = source.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(what) = tls.and_then(|tls| explain_certificate_of(tls.downcast_ref()?, CA_FILE)) {
            return format!("{text}: {what}");
        }
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
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
