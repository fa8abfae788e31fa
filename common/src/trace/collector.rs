//! The client of a trace collector, over OTLP/HTTP.

use crate::tls::{TrustedRoots, explain_tls_of};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::time::Duration;
use tokio::time::timeout;

/// The time limit of an export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// A response is read up to this size.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// An HTTP client that posts spans to the collector.
#[derive(Debug)]
pub(super) struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
}

impl Collector {
    /// A client that posts to `url`. The error says why TLS cannot be set up.
    pub(super) fn new(url: Uri) -> Result<Self, String> {
        let is_encrypted = url.scheme_str() == Some("https");
        let roots = if is_encrypted { TrustedRoots::system() } else { TrustedRoots::none() };
        if is_encrypted && roots.is_empty() {
            return Err("no root certificates are installed".to_owned());
        }
        let tls = roots.client()?.with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), url })
    }

    /// Posts an export. The error says why the collector did not accept it, and contains no header.
    pub(super) async fn export(&self, body: Vec<u8>) -> Result<(), String> {
        let exchange = timeout(EXPORT_TIMEOUT, self.exchange(body)).await;
        exchange.unwrap_or_else(|_elapsed| Err(format!("no response within {EXPORT_TIMEOUT:?}")))
    }

    async fn exchange(&self, body: Vec<u8>) -> Result<(), String> {
        let request = Request::post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "*/*")
            .header(USER_AGENT, crate::version::USER_AGENT)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())?;
        let response =
            self.client.request(request).await.map_err(|error| {
                explain_tls_of(&error, "SSL_CERT_FILE").unwrap_or_else(|| error.to_string())
            })?;
        let status = response.status();
        // The body is read so that the connection can be reused.
        drop(Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await);
        if status.is_success() { Ok(()) } else { Err(format!("status {}", status.as_u16())) }
    }
}
