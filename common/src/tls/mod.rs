//! TLS of the programs' connections: root certificates, client certificates, and errors that say what was wrong.
//!
//! Every connection with TLS is verified: the server's certificate must be signed by a trusted authority and be valid for the
//! host's name. There is no option to turn the verification off, and no fallback to plain text.

mod channel_binding;
mod failure;
mod handshake;
mod options;
mod report;
mod roots;

pub(crate) use channel_binding::server_end_point;
pub use failure::explain_tls_of;
pub(crate) use failure::{TlsFailure, explain_io};
pub(crate) use handshake::{TlsServer, handshake};
pub(crate) use options::{OptionNames, TlsOptions, decode_path};
pub use report::{CertificateFile, TlsReport};
pub(crate) use report::{certificate_files, expiry};
pub use roots::TrustedRoots;
