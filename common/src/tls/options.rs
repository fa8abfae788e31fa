//! What the URL of a server says about TLS.

use super::roots::TrustedRoots;
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::PathBuf;
use std::sync::Arc;

/// The names of the options in the URLs of one kind of server, for errors.
#[derive(Debug)]
pub(crate) struct OptionNames {
    pub(crate) roots: &'static str,
    pub(crate) certificate: &'static str,
    pub(crate) key: &'static str,
}

/// The files of a client certificate (PEM): the certificate with its chain, and its private key without encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// TLS to a server. The files are read for each connection, so that renewed certificates need no restart.
#[derive(Clone, Debug)]
pub(crate) struct TlsOptions {
    pub(crate) names: &'static OptionNames,
    /// The file with the trusted authorities (PEM); `None` for the system's.
    pub(crate) roots: Option<PathBuf>,
    pub(crate) client: Option<ClientCertificate>,
}

impl TlsOptions {
    /// Options of a URL with these files. The error says that one of the client's files is missing.
    pub(crate) fn new(
        names: &'static OptionNames, roots: Option<PathBuf>, certificate: Option<PathBuf>, key: Option<PathBuf>,
    ) -> Result<Self, String> {
        let client = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
            (None, None) => None,
            _ => return Err(format!("{} and {} must be set together", names.certificate, names.key)),
        };
        Ok(Self { names, roots, client })
    }

    /// Checks that the files that the URL names can be read; they are read again for each connection.
    pub(crate) fn check_files(&self) -> Result<(), String> {
        let names_files = self.roots.is_some() || self.client.is_some();
        if names_files { self.load().map(drop) } else { Ok(()) }
    }

    /// Reads the files. The error is one line that names the option and the file.
    pub(crate) fn load(&self) -> Result<Arc<ClientConfig>, String> {
        let builder = self.trusted()?.client()?;
        let config = match &self.client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let (chain, key) = self.identity(client)?;
                let pair = format!("{} {}", self.names.key, client.key.display());
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| format!("{pair} is not the private key of {}: {error}", self.names.certificate))?
            }
        };
        Ok(Arc::new(config))
    }

    pub(super) fn trusted(&self) -> Result<TrustedRoots, String> {
        let Some(path) = &self.roots else {
            let roots = TrustedRoots::system();
            let missing = "the system has no root certificates";
            let what = || format!("{missing}: install the package ca-certificates, or set {}", self.names.roots);
            return if roots.is_empty() { Err(what()) } else { Ok(roots) };
        };
        let mut roots = TrustedRoots::none();
        roots.add_file(path).map_err(|what| format!("{} {}: {what}", self.names.roots, path.display()))?;
        Ok(roots)
    }

    fn identity(
        &self, client: &ClientCertificate,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let ClientCertificate { certificate, key } = client;
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| format!("{} {}: {error}", self.names.certificate, certificate.display()))?;
        if chain.is_empty() {
            return Err(format!("{} {}: contains no certificate", self.names.certificate, certificate.display()));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| {
            format!("{} {}: {error}; expected an unencrypted private key (PEM)", self.names.key, key.display())
        })?;
        Ok((chain, key))
    }
}

/// The path that a URL's option holds, with its percent-encoding undone.
pub(crate) fn decode_path(name: &str, value: &str) -> Result<PathBuf, String> {
    let path = percent_decode_str(value).decode_utf8().ok().filter(|path| !path.is_empty());
    path.map(|path| PathBuf::from(path.as_ref())).ok_or_else(|| format!("{name} must be the path of a file"))
}
