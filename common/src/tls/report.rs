//! For operators: whether the connection to a server is encrypted, and when the server's certificate expires.

use super::handshake::{TlsServer, handshake};
use super::options::TlsOptions;
use chrono::{DateTime, Utc};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// TLS to one server.
#[derive(Clone, Debug)]
pub struct TlsReport {
    /// Host and port.
    pub server: String,
    /// Whether its address is a loopback address or a socket of the file system.
    pub is_local: bool,
    /// The time at which its certificates stop being valid, if that is within the given time; or why the handshake failed. `None`
    /// if connections are plain text.
    pub expiry: Option<Result<Option<DateTime<Utc>>, String>>,
}

/// Makes a handshake on a connected stream, and returns when the server's certificates expire, if they do so `within` that time.
pub(crate) async fn expiry(
    options: &TlsOptions,
    server: &TlsServer,
    stream: TcpStream,
    within: Duration,
) -> Result<Option<DateTime<Utc>>, String> {
    let encrypted = handshake(options.load()?, server, stream).await.map_err(|failure| failure.what)?;
    let (_, session) = encrypted.get_ref();
    let chain = session.peer_certificates().unwrap_or_default();
    expires(
        options,
        &server.name,
        chain,
        UnixTime::since_unix_epoch(Duration::from_secs(seconds() + within.as_secs())),
    )
}

fn seconds() -> u64 {
    u64::try_from(crate::clock::now().timestamp()).unwrap_or_default()
}

/// Verifies the chain as if it were later, which tells what expires first.
fn expires(
    options: &TlsOptions,
    name: &str,
    chain: &[CertificateDer<'_>],
    at: UnixTime,
) -> Result<Option<DateTime<Utc>>, String> {
    let Some((own, others)) = chain.split_first() else {
        return Err("the server sent no certificate".to_owned());
    };
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let roots = Arc::new(options.trusted()?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::new(ring::default_provider()))
        .build()
        .map_err(|error| error.to_string())?;
    match verifier.verify_server_cert(own, others, &name, &[], at) {
        Ok(_) => Ok(None),
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            let not_after = i64::try_from(not_after.as_secs()).unwrap_or(i64::MAX);
            Ok(DateTime::from_timestamp(not_after, 0))
        }
        Err(error) => Err(error.to_string()),
    }
}
