//! Which servers are trusted: those with a certificate of a trusted authority, and those whose own certificate the operator has listed.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    WantsVerifier, client::WantsClientCert,
};
use std::path::Path;
use std::sync::Arc;

/// The trusted certificates.
#[derive(Clone, Debug)]
pub struct TrustedRoots {
    authorities: RootCertStore,
    /// The same, whole. A server may present one of them itself: it is self-signed then.
    listed: Vec<CertificateDer<'static>>,
}

impl TrustedRoots {
    /// None yet.
    pub const fn none() -> Self {
        Self { authorities: RootCertStore { roots: Vec::new() }, listed: Vec::new() }
    }

    /// The system's; none where none are installed. Those that cannot be parsed are not trusted.
    pub fn system() -> Self {
        let mut roots = Self::none();
        let loaded = rustls_native_certs::load_native_certs();
        if let Some(error) = loaded.errors.first() {
            tracing::warn!(errors = loaded.errors.len(), %error, "some of the system's root certificates cannot be read; ignoring them");
        }
        roots.authorities.add_parsable_certificates(loaded.certs.iter().cloned());
        roots.listed = loaded.certs;
        roots
    }

    /// Adds the certificates of a PEM file, each of which must be valid. The error does not name the file.
    pub fn add_file(&mut self, path: &Path) -> Result<(), String> {
        let before = self.listed.len();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
            let certificate = certificate.map_err(|error| error.to_string())?;
            self.authorities.add(certificate.clone()).map_err(|error| error.to_string())?;
            self.listed.push(certificate);
        }
        if self.listed.len() == before { Err("contains no certificate".to_owned()) } else { Ok(()) }
    }

    /// Whether no server is trusted.
    pub fn is_empty(&self) -> bool {
        self.authorities.is_empty()
    }

    /// A client of TLS 1.2 and 1.3 that trusts them.
    pub fn client(self) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
        let builder: ConfigBuilder<ClientConfig, WantsVerifier> =
            ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?;
        if self.is_empty() {
            return Ok(builder.with_root_certificates(self.authorities));
        }
        Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(self.verifier()?)))
    }

    /// The verifier of the certificates that servers present.
    pub(super) fn verifier(self) -> Result<Verifier, String> {
        let authorities =
            WebPkiServerVerifier::builder_with_provider(Arc::new(self.authorities), Arc::new(ring::default_provider()));
        let authorities = authorities.build().map_err(|error| error.to_string())?;
        Ok(Verifier { authorities, listed: self.listed })
    }
}

/// Verifies as the library does, and also accepts a self-signed certificate that is listed, as OpenSSL does: tools make it with
/// `CA:TRUE` unless they are told otherwise, and the library takes no authority's certificate for a server's.
#[derive(Debug)]
pub(super) struct Verifier {
    authorities: Arc<WebPkiServerVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

/// Whether a certificate was refused because it is an authority's. Its time is checked before.
pub(super) fn is_authoritys(fault: &CertificateError) -> bool {
    matches!(fault, CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity"))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self, own: &CertificateDer<'_>, others: &[CertificateDer<'_>], name: &ServerName<'_>, ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.authorities.verify_server_cert(own, others, name, ocsp, now) {
            Err(Error::InvalidCertificate(fault)) if is_authoritys(&fault) && self.listed.contains(own) => {
                verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self, message: &[u8], certificate: &CertificateDer<'_>, signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self, message: &[u8], certificate: &CertificateDer<'_>, signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::explain_tls_of;
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    /// What `openssl req -x509 -addext subjectAltName=DNS:localhost` makes.
    fn self_signed(last_year: i32) -> rcgen::Certificate {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = date_time_ymd(last_year, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    /// What `openssl x509 -req -signkey` makes: version 1, without extensions.
    const VERSION_1: &str = "MIIBJDCBywIUZIHvs+tVnqOu7Avf+Va2mrkcNAowCgYIKoZIzj0EAwIwFDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyNjAyNTUwN1oYDzIxMjYxMTAyMDI1NTA3WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQQSE4gY9xg965V5xCTREtaa5LpT17LnBRRqsrb8CQlLs7y+BykLa9H0XISMeyX/zni4vDPMA8A99lYmZ72qgCRMAoGCCqGSM49BAMCA0gAMEUCIHHf6D6QQCRFXZAz3eD3as72yxWnhHddcnMDu6q/zBtAAiEA+lhQHFNuIhLByQCcNpHUK4tHxvjNinNPXyEY6sNJE1Q=";

    fn verified(listed: &rcgen::Certificate, presented: &CertificateDer<'_>, name: &str) -> Result<(), Error> {
        let path = std::env::temp_dir().join(format!("connect-listed-{}-{name}.pem", std::process::id()));
        std::fs::write(&path, listed.pem()).unwrap();
        let mut roots = TrustedRoots::none();
        roots.add_file(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let name = ServerName::try_from(name).unwrap();
        let verifier = roots.verifier().unwrap();
        verifier.verify_server_cert(presented, &[], &name, &[], UnixTime::now()).map(drop)
    }

    #[test]
    fn a_self_signed_certificate_is_accepted_if_it_is_listed_valid_and_names_the_host() {
        let (own, other, expired) = (self_signed(4096), self_signed(4096), self_signed(2020));
        assert_eq!(verified(&own, own.der(), "localhost"), Ok(()));
        let misnamed = verified(&own, own.der(), "elsewhere.example").unwrap_err();
        assert!(explain_tls_of(&misnamed, "FILE").unwrap().contains("not valid for elsewhere.example"));
        let late = verified(&expired, expired.der(), "late.example").unwrap_err();
        assert!(explain_tls_of(&late, "FILE").unwrap().contains("expired at 2020-01-01"));
        let unlisted = verified(&other, own.der(), "stranger.example").unwrap_err();
        assert!(explain_tls_of(&unlisted, "FILE").unwrap().contains("(CA:TRUE) that FILE does not list"));
        let version_1 = CertificateDer::from(STANDARD.decode(VERSION_1).unwrap());
        let old = verified(&own, &version_1, "old.example").unwrap_err();
        assert!(explain_tls_of(&old, "FILE").unwrap().contains("version 1 of X.509"), "{old}");
    }
}
