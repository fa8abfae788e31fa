//! TLS to receivers: trusts the system's root certificates and the operator's own.

use common::tls::TrustedRoots;
use rustls::ClientConfig;
use std::path::Path;
use std::sync::Arc;

/// TLS 1.2 and 1.3, HTTP/1.1 on top, certificates verified. The error says what is wrong with the file of root certificates.
pub(super) fn client(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = TrustedRoots::system();
    if let Some(path) = ca_file {
        roots.add_file(path).map_err(|what| format!("{}: {what}", path.display()))?;
    }
    if roots.is_empty() {
        tracing::warn!("no root certificates found; no receiver can be reached over TLS");
    }
    let mut config = roots.client()?.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_ca_file_is_reported() {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("connect-roots-{}.pem", std::process::id()));
        let refusal = || client(Some(&path)).unwrap_err();

        assert!(refusal().starts_with(path.to_str().unwrap()), "{}", refusal());
        std::fs::write(&path, "nothing of the kind").unwrap();
        assert!(refusal().ends_with(".pem: contains no certificate"), "{}", refusal());
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        assert!(refusal().starts_with(path.to_str().unwrap()), "{}", refusal());
        std::fs::remove_file(&path).unwrap();
        assert!(client(None).is_ok());
    }
}
