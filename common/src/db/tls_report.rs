//! TLS to Postgres, for operators.

use crate::settings::{DATABASE_TLS_NAMES, DatabaseUrl};
use crate::tls::{CertificateFile, TlsReport, TlsServer, certificate_files, expiry};
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_postgres::config::Host;

/// The protocol's request for TLS: its length, and a number.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// TLS to each server of `url`: certificates that expire `within` that time. A server may take `patience` to respond.
pub async fn tls_reports(url: &DatabaseUrl, within: Duration, patience: Duration) -> Vec<TlsReport> {
    let config = url.config();
    let mut reports = Vec::new();
    for place in 0..url.servers() {
        let port = config.get_ports().get(place).or_else(|| config.get_ports().first()).copied().unwrap_or(5432);
        let address = config.get_hostaddrs().get(place).copied();
        let (name, is_socket) = match config.get_hosts().get(place) {
            Some(Host::Tcp(name)) => (name.clone(), false),
            Some(Host::Unix(path)) => (path.display().to_string(), true),
            None => (address.map(|address| address.to_string()).unwrap_or_default(), false),
        };
        let target = address.map_or_else(|| name.clone(), |address| address.to_string());
        let is_loopback = target == "localhost" || target.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        let server = if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") };
        let expiry = match url.tls(&config, place) {
            None => None,
            Some(options) => {
                let of = TlsServer { address: server.clone(), name: name.clone(), names: &DATABASE_TLS_NAMES };
                let found =
                    timeout(patience, async { expiry(options, &of, request(&target, port).await?, within).await });
                Some(found.await.unwrap_or_else(|_| Err("no response in time".to_owned())))
            }
        };
        reports.push(TlsReport { server, is_local: is_socket || is_loopback, expiry });
    }
    reports
}

/// The files with certificates that `url` names, and whether they expire `within` that time.
pub fn tls_files(url: &DatabaseUrl, within: Duration) -> Vec<CertificateFile> {
    let config = url.config();
    // All servers of a URL have the same options.
    let options = (0..url.servers()).find_map(|place| url.tls(&config, place));
    options.map(|options| certificate_files(options, within)).unwrap_or_default()
}

/// A connection on which the server expects the handshake.
async fn request(host: &str, port: u16) -> Result<TcpStream, String> {
    let ask = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.write_all(&SSL_REQUEST).await?;
        Ok::<_, std::io::Error>((stream.read_u8().await?, stream))
    };
    match ask.await {
        Ok((b'S', stream)) => Ok(stream),
        Ok(_) => Err("the server does not offer TLS".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
