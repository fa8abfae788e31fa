//! Encryption, and certificates that expire: of servers, of clients, and of authorities.

use super::Finding;
use common::settings::{BrokerSettings, DatabaseSettings};
use common::tls::{CertificateFile, TlsReport};
use common::{broker, clock, db};
use std::time::Duration;

/// Certificates that expire within this time are a warning.
const SOON: Duration = Duration::from_secs(30 * 86_400);
/// How the finding of a server without TLS ends.
pub(super) const UNENCRYPTED: &str = "are not encrypted";
/// Those that expire within this time are an error.
const NOW: chrono::TimeDelta = chrono::TimeDelta::days(3);

pub(super) async fn postgres(settings: &DatabaseSettings, patience: Duration) -> Vec<Finding> {
    let (mut reports, mut files) = (Vec::new(), Vec::new());
    for url in [&settings.url, &settings.direct_url, &settings.read_url] {
        for report in db::tls_reports(url, SOON, patience).await {
            if !reports.iter().any(|known: &TlsReport| known.server == report.server) {
                reports.push(report);
            }
        }
        files.extend(db::tls_files(url, SOON));
    }
    let mut findings = findings(&reports, "set sslmode=verify-full in the URL");
    findings.extend(of_files(&files));
    findings
}

pub(super) async fn broker(settings: &BrokerSettings, patience: Duration) -> Vec<Finding> {
    let reports = broker::tls_reports(settings, SOON, patience).await;
    let mut findings = findings(&reports, "use amqps:// in AMQP_URL");
    findings.extend(of_files(&broker::tls_files(settings, SOON)));
    findings
}

/// A file that several URLs name is reported once.
fn of_files(files: &[CertificateFile]) -> Vec<Finding> {
    let is_first = |(place, file): &(usize, &CertificateFile)| !files[..*place].contains(file);
    files.iter().enumerate().filter(is_first).filter_map(|(_, file)| of_file(file)).collect()
}

fn of_file(file: &CertificateFile) -> Option<Finding> {
    let CertificateFile { option, path, has_authorities, expiry } = file;
    let place = format!("{option} {}", path.display());
    let at = match expiry {
        Ok(at) => (*at)?,
        Err(what) => {
            return Some(Finding::error(
                format!("the certificates of {place} cannot be read: {what}"),
                "Put certificates (PEM) into the file",
            ));
        }
    };
    let left = at - clock::now();
    let verb = if left <= chrono::TimeDelta::zero() { "expired" } else { "expires" };
    if *has_authorities {
        // The programs go on trusting an authority that has expired, and other clients do not.
        return Some(Finding::warning(
            format!("the authority of {place} {verb} at {}", at.to_rfc3339()),
            "Add the authority's new certificate to the file before servers get certificates of it; the programs need no restart",
        ));
    }
    let message = format!("the client certificate of {place} {verb} at {}", at.to_rfc3339());
    let fix = "Renew the client certificate and its key in their files; the programs need no restart";
    Some(Finding::of(left < NOW, message, fix))
}

fn findings(reports: &[TlsReport], encrypt: &str) -> Vec<Finding> {
    let of = |report: &TlsReport| {
        let TlsReport { server, is_local, expiry } = report;
        match expiry {
            None if *is_local => None,
            None => Some(Finding::warning(
                format!("connections to {server} {UNENCRYPTED}"),
                format!("Turn TLS on at the server, and {encrypt}; see docs/install.md, TLS"),
            )),
            Some(Ok(None)) => None,
            Some(Ok(Some(at))) => {
                let message = format!("the certificate of {server} expires at {}", at.to_rfc3339());
                let fix = "Renew the certificate at the server; the programs need no restart";
                Some(Finding::of(*at - clock::now() < NOW, message, fix))
            }
            Some(Err(what)) => Some(Finding::error(
                format!("TLS with {server} failed: {what}"),
                "See docs/install.md, TLS: it has a table of these errors",
            )),
        }
    };
    reports.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn another_machine_is_reported_without_tls() {
        let level = |is_local| {
            let report = TlsReport { server: "db.example:5432".to_owned(), is_local, expiry: None };
            findings(&[report], "encrypt").first().map(|finding| finding.level)
        };
        assert_eq!((level(true), level(false)), (None, Some(Level::Warning)));
    }

    #[test]
    fn a_file_is_reported_once_and_an_authority_is_no_error() {
        let yesterday = clock::now() - chrono::TimeDelta::days(1);
        let file = |has_authorities| CertificateFile {
            option: "sslcert",
            path: "/a.pem".into(),
            has_authorities,
            expiry: Ok(Some(yesterday)),
        };
        let found = |file: CertificateFile| {
            let found = of_files(&[file.clone(), file]);
            let [finding] = &found[..] else { panic!("{found:?}") };
            (finding.level, finding.message.contains("sslcert /a.pem expired at"))
        };
        assert_eq!(found(file(false)), (Level::Error, true));
        assert_eq!(found(file(true)), (Level::Warning, true));
        let unreadable = CertificateFile { expiry: Err("x".to_owned()), ..file(true) };
        assert_eq!(of_files(&[unreadable])[0].level, Level::Error);
    }
}
