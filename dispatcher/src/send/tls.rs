//! TLS to receivers: trusts the system's root certificates and the operator's own.

use super::settings::SenderError;
use common::tls::TrustedRoots;
use rustls::ClientConfig;
use std::path::Path;
use std::sync::Arc;

/// TLS 1.2 and 1.3, HTTP/1.1 on top, certificates verified.
pub(super) fn client(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, SenderError> {
    let mut roots = TrustedRoots::system();
    if let Some(path) = ca_file {
        roots.add_file(path).map_err(|what| SenderError::CaFile(format!("{}: {what}", path.display())))?;
    }
    if roots.is_empty() {
        tracing::warn!("no root certificates found; no receiver can be reached over TLS");
    }
    let mut config = roots.client().map_err(SenderError::Tls)?.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_ca_file_is_reported_with_its_setting() {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("connect-roots-{}.pem", std::process::id()));
        let refusal = || client(Some(&path)).unwrap_err().to_string();

        assert!(refusal().starts_with("setting CONNECT_WEBHOOK_CA_FILE: /"), "{}", refusal());
        std::fs::write(&path, "nothing of the kind").unwrap();
        assert!(refusal().ends_with(".pem: contains no certificate"), "{}", refusal());
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        assert!(refusal().starts_with("setting CONNECT_WEBHOOK_CA_FILE: "), "{}", refusal());
        std::fs::remove_file(&path).unwrap();
        assert!(client(None).is_ok());
    }
}
