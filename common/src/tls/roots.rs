//! Root certificates: the authorities that are trusted.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::path::Path;

/// The system's root certificates; none where none are installed. Those that cannot be parsed are not trusted.
pub fn native_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let loaded = rustls_native_certs::load_native_certs();
    if let Some(error) = loaded.errors.first() {
        tracing::warn!(errors = loaded.errors.len(), %error, "some of the system's root certificates cannot be read; ignoring them");
    }
    roots.add_parsable_certificates(loaded.certs);
    roots
}

/// Adds the certificates of a PEM file, each of which must be valid. The error does not name the file.
pub fn add_pem_file(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    if roots.len() == before {
        return Err("contains no certificate".to_owned());
    }
    Ok(())
}
