//! For operators: whether the connection to a server is encrypted, and when certificates expire: the server's, and those of the files
//! that a URL names.

use super::handshake::{TlsServer, handshake};
use super::options::TlsOptions;
use chrono::{DateTime, Utc};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};
use std::path::{Path, PathBuf};
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

/// A file with certificates that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFile {
    /// The option of the URL, such as `sslcert`.
    pub option: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// Whether it has the authorities that are trusted, instead of the client's certificate.
    pub has_authorities: bool,
    /// The time from which on it is of no use, if that is within the given time: the first certificate of a client's chain has expired, or
    /// the last of the authorities. Or why it cannot be read.
    pub expiry: Result<Option<DateTime<Utc>>, String>,
}

/// The files that these options name, and whether they expire `within` that time.
pub(crate) fn certificate_files(options: &TlsOptions, within: Duration) -> Vec<CertificateFile> {
    let at = later(within);
    let client = options.client.as_ref().map(|client| (options.names.certificate, &client.certificate, false));
    let authorities = options.roots.as_ref().map(|path| (options.names.roots, path, true));
    let files = [client, authorities].into_iter().flatten();
    files
        .map(|(option, path, has_authorities)| CertificateFile {
            option,
            path: path.clone(),
            has_authorities,
            expiry: file_expiry(path, has_authorities, at),
        })
        .collect()
}

fn file_expiry(path: &Path, has_authorities: bool, at: UnixTime) -> Result<Option<DateTime<Utc>>, String> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    let mut expiries = Vec::new();
    for certificate in certificates {
        expiries.push(certificate_expiry(&certificate.map_err(|error| error.to_string())?, at)?);
    }
    if has_authorities {
        // An authority that is still valid at that time suffices.
        return Ok(expiries.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max()));
    }
    Ok(expiries.into_iter().flatten().min())
}

/// When a certificate expires, if that is before `at`. The verifier looks at the time before it looks for the issuer and the purpose, which
/// therefore do not matter; whatever else it objects to is no matter of time.
fn certificate_expiry(certificate: &CertificateDer<'_>, at: UnixTime) -> Result<Option<DateTime<Utc>>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).map_err(|error| error.to_string())?;
    let name = ServerName::try_from("localhost").map_err(|error| error.to_string())?;
    let verified = verifier(roots)?.verify_server_cert(certificate, &[], &name, &[], at);
    Ok(verified.err().and_then(|error| not_after(&error)))
}

/// Makes a handshake on a connected stream, and returns when the server's certificates expire, if they do so `within` that time.
pub(crate) async fn expiry(
    options: &TlsOptions, server: &TlsServer, stream: TcpStream, within: Duration,
) -> Result<Option<DateTime<Utc>>, String> {
    let encrypted = handshake(options.load()?, server, stream).await.map_err(|failure| failure.what)?;
    let (_, session) = encrypted.get_ref();
    let chain = session.peer_certificates().unwrap_or_default();
    expires(options, &server.name, chain, later(within))
}

fn later(within: Duration) -> UnixTime {
    let now = u64::try_from(crate::clock::now().timestamp()).unwrap_or_default();
    UnixTime::since_unix_epoch(Duration::from_secs(now + within.as_secs()))
}

/// Verifies the chain as if it were later, which tells what expires first.
fn expires(
    options: &TlsOptions, name: &str, chain: &[CertificateDer<'_>], at: UnixTime,
) -> Result<Option<DateTime<Utc>>, String> {
    let Some((own, others)) = chain.split_first() else {
        return Err("the server sent no certificate".to_owned());
    };
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    match options.trusted()?.verifier()?.verify_server_cert(own, others, &name, &[], at) {
        Ok(_) => Ok(None),
        Err(error) => not_after(&error).map(Some).ok_or_else(|| error.to_string()),
    }
}

fn verifier(roots: RootCertStore) -> Result<Arc<WebPkiServerVerifier>, String> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()))
        .build()
        .map_err(|error| error.to_string())
}

/// The last moment of a certificate that is refused because it has expired.
fn not_after(error: &Error) -> Option<DateTime<Utc>> {
    let Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) = error else {
        return None;
    };
    DateTime::from_timestamp(i64::try_from(not_after.as_secs()).unwrap_or(i64::MAX), 0)
}
