//! Why a connection with TLS failed, in words that name the remedy.

use super::options::OptionNames;
use super::roots::is_authoritys;
use crate::causes::cause;
use chrono::DateTime;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};
use std::error::Error as StdError;
use std::io;
use thiserror::Error;

/// Why TLS with a server failed: one line that names the server.
#[derive(Debug, Error)]
#[error("TLS with {server}: {what}")]
pub(crate) struct TlsFailure {
    pub(crate) server: String,
    pub(crate) what: String,
}

/// What an error of a stream with TLS means; `None` where TLS is not its cause.
pub(crate) fn explain_io(error: &io::Error, names: &OptionNames) -> Option<String> {
    let tls = error.get_ref()?.downcast_ref::<Error>()?;
    Some(explain(tls, names))
}

/// What an error during the handshake means.
pub(super) fn explain_handshake(error: &io::Error, names: &OptionNames) -> String {
    if let Some(what) = explain_io(error, names) {
        return what;
    }
    if [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset].contains(&error.kind()) {
        return "the server closed the connection during the handshake; check that it offers TLS on this port"
            .to_owned();
    }
    error.to_string()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the library's text suffices for rare errors")]
fn explain(error: &Error, names: &OptionNames) -> String {
    match error {
        Error::InvalidCertificate(fault) => explain_certificate(fault, names.roots),
        Error::AlertReceived(alert) => explain_alert(*alert, names),
        other => explain_other(other),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the library's text suffices for rare errors")]
fn explain_other(error: &Error) -> String {
    match error {
        Error::InvalidMessage(_) => "the server does not use TLS on this port".to_owned(),
        Error::PeerIncompatible(_) => "the server offers neither TLS 1.2 nor 1.3 with a supported cipher".to_owned(),
        other => other.to_string(),
    }
}

/// Why TLS with a server failed to which no client certificate is presented, where that is the cause of an error. `roots` is the
/// setting that names trusted certificates.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library's text suffices for rare errors")]
pub fn explain_tls_of(error: &(dyn StdError + 'static), roots: &str) -> Option<String> {
    Some(match cause(error)? {
        Error::InvalidCertificate(fault) => explain_certificate(fault, roots),
        other => explain_other(other),
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the library's text suffices for rare errors")]
fn explain_certificate(fault: &CertificateError, roots: &str) -> String {
    match fault {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "the server's certificate is not signed by a trusted authority; set {roots} to the certificate of its authority"
        ),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the server's certificate expired at {}; renew it", time(*not_after))
        }
        CertificateError::Expired => "the server's certificate has expired; renew it".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("the server's certificate is not valid before {}; compare the clocks", time(*not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "the server's certificate is not valid for {}; it names {}",
            expected.to_str(),
            names_in(presented)
        ),
        fault if is_authoritys(fault) => format!(
            "the server presents an authority's own certificate (CA:TRUE) that {roots} does not list; list it there, or give the server a certificate that the authority has issued"
        ),
        CertificateError::Other(other) if format!("{other:?}").contains("UnsupportedCertVersion") => {
            "the server's certificate has the old version 1 of X.509, which has no names; make one of version 3, with a subjectAltName"
                .to_owned()
        }
        other => format!("the server's certificate is not accepted: {other}"),
    }
}

/// The hosts and addresses of a certificate, which the library gives as `DnsName("localhost")` and `IpAddress(127.0.0.1)`.
fn names_in(presented: &[String]) -> String {
    let name = |text: &String| {
        let inner = text.split_once('(').map_or(text.as_str(), |(_, rest)| rest.trim_end_matches(')'));
        inner.trim_matches('"').to_owned()
    };
    if presented.is_empty() {
        return "no host".to_owned();
    }
    presented.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the library's text suffices for rare alerts")]
fn explain_alert(alert: AlertDescription, names: &OptionNames) -> String {
    let OptionNames { certificate, key, .. } = names;
    match alert {
        AlertDescription::CertificateRequired => {
            format!("the server requires a client certificate; set {certificate} and {key}")
        }
        AlertDescription::HandshakeFailure => {
            format!("the server refused the handshake; it may require a client certificate ({certificate} and {key})")
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => {
            format!("the server does not accept the client certificate of {certificate} ({alert:?})")
        }
        AlertDescription::ProtocolVersion => "the server offers neither TLS 1.2 nor 1.3".to_owned(),
        other => format!("the server ended TLS with the alert {other:?}"),
    }
}

/// In RFC 3339.
fn time(at: UnixTime) -> String {
    let seconds = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, 0).map_or_else(|| "an unknown time".to_owned(), |at| at.to_rfc3339())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_certificate_are_shown_without_the_librarys_types() {
        let presented = ["DnsName(\"*.a.example\")", "IpAddress(127.0.0.1)", "DirectoryName"].map(str::to_owned);
        assert_eq!(names_in(&presented), "*.a.example, 127.0.0.1, DirectoryName");
        assert_eq!(names_in(&[]), "no host");
    }
}
