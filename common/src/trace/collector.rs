//! The collector, over OTLP/HTTP.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use std::time::Duration;
use tokio::time::timeout;

/// Longest that one export may take.
const WITHIN: Duration = Duration::from_secs(10);
/// The most that is read of an answer, in bytes.
const MOST_READ: usize = 64 << 10;

/// Takes spans.
#[derive(Debug)]
pub(super) struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
}

impl Collector {
    /// The one at `url`, where traces are posted to. The error says why there can't be TLS.
    pub(super) fn new(url: Uri) -> Result<Self, String> {
        let builder = if url.scheme_str() == Some("https") {
            let provider = ring::default_provider();
            let builder = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider);
            builder.map_err(|error| format!("no root certificates: {error}"))?
        } else {
            let config = ClientConfig::builder_with_provider(ring::default_provider().into())
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?;
            let nobody = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
            HttpsConnectorBuilder::new().with_tls_config(nobody)
        };
        let connector = builder.https_or_http().enable_http1().build();
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), url })
    }

    /// Hands an export over. The error says why it wasn't taken; it names no header.
    pub(super) async fn take(&self, body: Vec<u8>) -> Result<(), String> {
        let exchange = timeout(WITHIN, self.exchange(body)).await;
        exchange.unwrap_or_else(|_elapsed| Err(format!("no answer within {WITHIN:?}")))
    }

    async fn exchange(&self, body: Vec<u8>) -> Result<(), String> {
        let request = Request::post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        // Read, so that the connection can be used again.
        drop(Limited::new(response.into_body(), MOST_READ).collect().await);
        if status.is_success() { Ok(()) } else { Err(format!("status {}", status.as_u16())) }
    }
}
