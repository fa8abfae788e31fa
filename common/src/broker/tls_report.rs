//! TLS to RabbitMQ, for operators.

use crate::settings::{BROKER_TLS_NAMES, BrokerSettings};
use crate::tls::{CertificateFile, TlsReport, TlsServer, certificate_files, expiry};
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// TLS to each broker of the settings: certificates that expire `within` that time. A broker may take `patience` to respond.
pub async fn tls_reports(settings: &BrokerSettings, within: Duration, patience: Duration) -> Vec<TlsReport> {
    let mut reports = Vec::new();
    for (_, url) in settings.urls.in_order() {
        let (server, authority) = (url.address(), &url.uri.authority);
        let is_local =
            authority.host == "localhost" || authority.host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        let expiry = match &url.tls {
            None => None,
            Some(tls) => {
                let of = TlsServer { address: server.clone(), name: tls.server_name.clone(), names: &BROKER_TLS_NAMES };
                let found = timeout(patience, async {
                    let stream = TcpStream::connect((authority.host.as_str(), authority.port)).await;
                    expiry(&tls.options, &of, stream.map_err(|error| error.to_string())?, within).await
                });
                Some(found.await.unwrap_or_else(|_| Err("no response in time".to_owned())))
            }
        };
        reports.push(TlsReport { server, is_local, expiry });
    }
    reports
}

/// The files with certificates that the URLs of the settings name, and whether they expire `within` that time.
pub fn tls_files(settings: &BrokerSettings, within: Duration) -> Vec<CertificateFile> {
    let all = settings.urls.in_order().filter_map(|(_, url)| url.tls);
    all.flat_map(|tls| certificate_files(&tls.options, within)).collect()
}
