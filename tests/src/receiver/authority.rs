//! A certificate authority of a test.

use chrono::Datelike as _;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;
use tokio_rustls::TlsAcceptor;

/// A certificate authority that only readers of its file trust. It is created at run time; dropping it removes the file.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
    /// Its own certificate, where servers present that one.
    own: Option<Certificate>,
}

/// A certificate and its private key, each as PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Signed by the authority.
    pub certificate: String,
    /// In the form of PKCS #8.
    pub key: String,
}

impl Authority {
    /// Creates an authority with a new key.
    pub fn new() -> Self {
        Self::create(CertificateParams::default())
    }

    /// The authority that the dispatcher of the shared world trusts.
    pub fn shared() -> Arc<Self> {
        static SHARED: LazyLock<Arc<Authority>> = LazyLock::new(Arc::default);
        Arc::clone(&SHARED)
    }

    /// Creates an authority whose own certificate expires in so many days, at midnight.
    pub fn for_days(days: u64) -> Self {
        let mut params = CertificateParams::default();
        expire_in_days(&mut params, days);
        Self::create(params)
    }

    /// What `openssl req -x509 -addext subjectAltName=…` makes: servers of these names present the authority's own certificate.
    pub fn self_signed(names: &[&str]) -> Self {
        Self::create_own(Self::params(names))
    }

    /// Like [`self_signed`](Self::self_signed), and expired.
    pub fn expired_self_signed(names: &[&str]) -> Self {
        let mut params = Self::params(names);
        params.not_after = date_time_ymd(2020, 1, 1);
        Self::create_own(params)
    }

    fn create_own(params: CertificateParams) -> Self {
        let mut authority = Self::create(params);
        let certificate = std::fs::read_to_string(&authority.file).expect("the authority's file");
        authority.own = Some(Certificate { certificate, key: authority.issuer.key().serialize_pem() });
        authority
    }

    fn create(mut params: CertificateParams) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate for self-signed if it has the name of its issuer.
        params.distinguished_name.push(DnType::CommonName, format!("authority {count}"));
        let key = KeyPair::generate().expect("a key");
        let root = params.self_signed(&key).expect("a root certificate");
        let file = std::env::temp_dir().join(format!("connect-ca-{}-{count}.pem", std::process::id()));
        std::fs::write(&file, root.pem()).expect("a directory for temporary files");
        Self { issuer: Issuer::new(params, key), file, own: None }
    }

    /// Its root certificate (PEM), for `CONNECT_WEBHOOK_CA_FILE`.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// A certificate for these names and addresses.
    pub fn certificate(&self, names: &[&str]) -> Certificate {
        self.own.clone().unwrap_or_else(|| self.sign(&Self::params(names)))
    }

    /// A certificate for these names and addresses that has expired.
    pub fn expired_certificate(&self, names: &[&str]) -> Certificate {
        let mut params = Self::params(names);
        params.not_after = date_time_ymd(2020, 1, 1);
        self.sign(&params)
    }

    /// A certificate for these names and addresses that expires in so many days, at midnight.
    pub fn certificate_for_days(&self, names: &[&str], days: u64) -> Certificate {
        let mut params = Self::params(names);
        expire_in_days(&mut params, days);
        self.sign(&params)
    }

    fn params(names: &[&str]) -> CertificateParams {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let subject = names.first().cloned().unwrap_or_default();
        let mut params = CertificateParams::new(names).expect("names of hosts");
        params.distinguished_name.push(DnType::CommonName, subject);
        params
    }

    fn sign(&self, params: &CertificateParams) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Certificate { certificate, key: key.serialize_pem() }
    }

    /// TLS with a certificate for these names and addresses.
    pub(super) fn acceptor(&self, names: &[&str]) -> TlsAcceptor {
        let Certificate { certificate, key } = self.certificate(names);
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a private key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("the key is the certificate's");
        TlsAcceptor::from(Arc::new(config))
    }
}

fn expire_in_days(params: &mut CertificateParams, days: u64) {
    let last = chrono::DateTime::<chrono::Utc>::from(SystemTime::now()) + chrono::Days::new(days);
    let [month, day] = [last.month(), last.day()].map(|part| u8::try_from(part).expect("of a date"));
    params.not_after = date_time_ymd(last.year(), month, day);
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        // A panic here would hide the test's own.
        drop(std::fs::remove_file(&self.file));
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("file", &self.file).finish_non_exhaustive()
    }
}
