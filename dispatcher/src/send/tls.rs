//! Whom we believe to be a receiver: the system's roots and the operator's own.

use super::settings::SenderError;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// TLS 1.2 and 1.3, HTTP/1.1 on top, certificates verified.
pub(super) fn client(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, SenderError> {
    let mut roots = systems_roots();
    if let Some(path) = ca_file {
        add_file(&mut roots, path)
            .map_err(|what| SenderError::CaFile(format!("{}: {what}", path.display())))?;
    }
    if roots.is_empty() {
        tracing::warn!("there are no root certificates: no receiver can be reached over TLS");
    }
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn systems_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let loaded = rustls_native_certs::load_native_certs();
    if let Some(error) = loaded.errors.first() {
        tracing::warn!(errors = loaded.errors.len(), %error, "some of the system's root certificates can't be read");
    }
    // A system's list may have what isn't understood; it just isn't believed.
    roots.add_parsable_certificates(loaded.certs);
    roots
}

/// Here every certificate must be good: the operator named this file.
fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    if roots.len() == before {
        return Err("holds no certificate".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_roots_that_cant_be_used_is_named_with_its_setting() {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("connect-roots-{}.pem", std::process::id()));
        let refusal = || client(Some(&path)).unwrap_err().to_string();

        assert!(refusal().starts_with("setting CONNECT_WEBHOOK_CA_FILE: /"), "{}", refusal());
        std::fs::write(&path, "nothing of the kind").unwrap();
        assert!(refusal().ends_with(".pem: holds no certificate"), "{}", refusal());
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        assert!(refusal().starts_with("setting CONNECT_WEBHOOK_CA_FILE: "), "{}", refusal());
        std::fs::remove_file(&path).unwrap();
        assert!(client(None).is_ok());
    }
}
