//! HTTP to the provider.

use super::ProviderError;
use super::settings::{CA_FILE, OidcSettings};
use bytes::Bytes;
use common::causes::cause;
use common::egress::HEAD_LINES_MAX;
use common::settings::is_loopback;
use common::tls::{TrustedRoots, explain_tls_of};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Map, Value};
use std::error::Error as StdError;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

/// Longest time that an exchange may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes of a response.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// A client that follows no redirects and ignores the proxy variables of the environment. It sends requests to `http://` as well;
/// the caller decides where that is allowed ([`is_allowed`]).
#[derive(Debug)]
pub(super) struct Transport(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl Transport {
    /// Trusts the system's root certificates and those of the settings. The error says which setting is wrong.
    pub(super) fn new(settings: &OidcSettings) -> Result<Self, String> {
        let mut roots = TrustedRoots::system();
        if let Some(path) = &settings.ca_file {
            roots.add_file(path).map_err(|error| format!("setting {CA_FILE}: {}: {error}", path.display()))?;
        }
        let config = roots.client().map_err(|error| format!("TLS cannot be set up: {error}"))?;
        let config = config.with_no_client_auth();
        let connector = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build();
        // As many as a proxy may add, as for receivers of webhooks.
        let client = Client::builder(TokioExecutor::new()).http1_max_headers(HEAD_LINES_MAX).build(connector);
        Ok(Self(client))
    }

    /// The document at a URL.
    pub(super) async fn get(&self, url: &Url) -> Result<Map<String, Value>, ProviderError> {
        let (status, document) = self.send(Request::get(url.as_str()), String::new()).await?;
        if status == StatusCode::OK { Ok(document) } else { Err(unexpected(status)) }
    }

    /// The answer to a form, which is an error of OAuth if it has the field `error`.
    pub(super) async fn post(
        &self, url: &Url, authorization: Option<String>, form: String,
    ) -> Result<Map<String, Value>, ProviderError> {
        let mut request = Request::post(url.as_str()).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let (status, answer) = self.send(request, form).await?;
        let is_answer = status == StatusCode::OK || answer.contains_key("error");
        if is_answer { Ok(answer) } else { Err(unexpected(status)) }
    }

    /// Sends a request and reads the whole response. 5xx and 429 pass; another status without a JSON object does not.
    async fn send(
        &self, request: hyper::http::request::Builder, body: String,
    ) -> Result<(StatusCode, Map<String, Value>), ProviderError> {
        // Some providers' firewalls refuse requests that do not say who sends them.
        let request = request
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, common::version::USER_AGENT)
            .body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| ProviderError::unusable("url", &error.to_string()))?;
        let exchanged = timeout(TIMEOUT, self.exchange(request)).await;
        let (status, body) =
            exchanged.unwrap_or_else(|_| Err(ProviderError::Unavailable(format!("no response within {TIMEOUT:?}"))))?;
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(ProviderError::Unavailable(format!("the provider responded with {status}")));
        }
        let object = serde_json::from_slice(&body);
        object.map(|object| (status, object)).map_err(|_| match status {
            StatusCode::OK => ProviderError::unusable("body", "must be a JSON object"),
            status => unexpected(status),
        })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), ProviderError> {
        let response = self.0.request(request).await;
        let (head, body) = response.map_err(|error| failure(&error))?.into_parts();
        let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                ProviderError::unusable("body", &format!("must have at most {RESPONSE_BYTES_MAX} bytes"))
            } else {
                ProviderError::Unavailable(error.to_string())
            }
        })?;
        Ok((head.status, body.to_bytes()))
    }
}

fn unexpected(status: StatusCode) -> ProviderError {
    ProviderError::unusable("status", &format!("must be 200, and is {status}"))
}

/// Whether requests may be sent to, and people redirected to, a URL of the provider.
pub(super) fn is_allowed(url: &Url, is_local: bool) -> bool {
    match (url.scheme(), url.host_str()) {
        ("https", Some(_)) => true,
        ("http", Some(host)) => is_local && is_loopback(host),
        _ => false,
    }
}

/// Why there is no response. A certificate that is not accepted, or a port without TLS, is no outage: trying again does not help. Of
/// other failures the library's own text says only that there was no connection.
fn failure(error: &(dyn StdError + 'static)) -> ProviderError {
    if let Some(what) = explain_tls_of(error, CA_FILE) {
        return ProviderError::unusable("TLS", &what);
    }
    if let Some(error) = cause::<hyper::Error>(error).filter(|error| error.is_parse()) {
        return ProviderError::unusable("response", &error.to_string());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    ProviderError::Unavailable(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_port_without_tls_is_no_outage() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let transport = Transport::new(&OidcSettings::for_tests()).unwrap();
        let answer = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0);
            socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            socket
        };
        let (failed, _socket) = tokio::join!(transport.get(&url), answer);
        let failed = failed.unwrap_err();
        assert!(matches!(failed, ProviderError::Unusable { .. }), "{failed}");
        assert!(failed.to_string().ends_with("the server does not use TLS on this port"), "{failed}");
    }

    #[test]
    fn urls_of_the_provider_have_tls_unless_it_is_on_this_machine() {
        let allowed = |url: &str, is_local| is_allowed(&url.parse().unwrap(), is_local);
        assert!(allowed("https://login.example.com/token", false));
        assert!(allowed("http://127.0.0.1:9400/token", true));
        assert!(!allowed("http://127.0.0.1:9400/token", false), "of an issuer elsewhere");
        assert!(!allowed("http://login.example.com/token", true));
        assert!(!allowed("ldap://127.0.0.1/token", true));
    }
}
