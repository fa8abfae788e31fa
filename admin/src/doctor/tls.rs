//! Encryption, and certificates that expire.

use super::Finding;
use common::settings::{BrokerSettings, DatabaseSettings};
use common::tls::TlsReport;
use common::{broker, clock, db};
use std::time::Duration;

/// Certificates that expire within this time are a warning.
const SOON: Duration = Duration::from_secs(30 * 86_400);
/// Those that expire within this time are an error.
const NOW: chrono::TimeDelta = chrono::TimeDelta::days(3);

pub(super) async fn postgres(settings: &DatabaseSettings, patience: Duration) -> Vec<Finding> {
    let mut reports = Vec::new();
    for url in [&settings.url, &settings.direct_url, &settings.read_url] {
        for report in db::tls_reports(url, SOON, patience).await {
            if !reports.iter().any(|known: &TlsReport| known.server == report.server) {
                reports.push(report);
            }
        }
    }
    findings(&reports, "set sslmode=verify-full in the URL")
}

pub(super) async fn broker(settings: &BrokerSettings, patience: Duration) -> Vec<Finding> {
    let reports = broker::tls_reports(settings, SOON, patience).await;
    findings(&reports, "use amqps:// in AMQP_URL")
}

fn findings(reports: &[TlsReport], encrypt: &str) -> Vec<Finding> {
    let of = |report: &TlsReport| {
        let TlsReport { server, is_local, expiry } = report;
        match expiry {
            None if *is_local => None,
            None => Some(Finding::warning(
                format!("connections to {server} are not encrypted"),
                format!("Turn TLS on at the server, and {encrypt}; see docs/operators.md, TLS"),
            )),
            Some(Ok(None)) => None,
            Some(Ok(Some(at))) => {
                let finding = if *at - clock::now() < NOW { Finding::error } else { Finding::warning };
                let message = format!("the certificate of {server} expires at {}", at.to_rfc3339());
                Some(finding(
                    message,
                    "Renew the certificate at the server; the programs need no restart".to_owned(),
                ))
            }
            Some(Err(what)) => Some(Finding::error(
                format!("TLS with {server} failed: {what}"),
                "See docs/operators.md, TLS: it has a table of these errors",
            )),
        }
    };
    reports.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn a_certificate_is_reported_before_it_expires() {
        let level = |expiry, is_local| {
            let report = TlsReport { server: "db.example:5432".to_owned(), is_local, expiry };
            findings(&[report], "encrypt").first().map(|finding| finding.level)
        };
        let in_days = |days| Some(Ok(Some(clock::now() + TimeDelta::days(days))));
        assert_eq!(level(in_days(29), false), Some(Level::Warning));
        assert_eq!(level(in_days(2), false), Some(Level::Error));
        assert_eq!(level(Some(Ok(None)), false), None);
        assert_eq!(level(Some(Err("unknown issuer".to_owned())), true), Some(Level::Error));
        assert_eq!((level(None, true), level(None, false)), (None, Some(Level::Warning)));
    }
}
