//! The options of `DATABASE_URL` for TLS: libpq's, except that the modes which encrypt all verify the server.

use crate::tls::{OptionNames, TlsOptions, decode_path};
use std::net::IpAddr;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The names that errors use.
pub(crate) const NAMES: OptionNames = OptionNames { roots: "sslrootcert", certificate: "sslcert", key: "sslkey" };

/// libpq's value of `sslrootcert` for the system's root certificates.
const SYSTEM_ROOTS: &str = "system";

/// Which servers are reached with TLS, and how.
#[derive(Clone, Debug)]
pub(super) struct DatabaseTls {
    policy: Policy,
    options: TlsOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Never,
    /// Without `sslmode`.
    ExceptLoopback,
    /// As with libpq, not over a socket of the file system.
    Always,
}

impl DatabaseTls {
    pub(super) const OPTIONS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

    /// Splits a URL into the driver's part and the options for TLS, whose files must be readable. A file is read again for each
    /// connection.
    pub(super) fn split_from(url: &str) -> Result<(String, Self), String> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (ours, drivers): (Vec<&str>, Vec<&str>) = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .partition(|pair| Self::OPTIONS.contains(&pair.split_once('=').unwrap_or((pair, "")).0));
        let driver = if drivers.is_empty() { base.to_owned() } else { format!("{base}?{}", drivers.join("&")) };
        Ok((driver, Self::from_options(&ours)?))
    }

    fn from_options(pairs: &[&str]) -> Result<Self, String> {
        let mut policy = Policy::ExceptLoopback;
        let (mut roots, mut certificate, mut key) = (None, None, None);
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "sslmode" => policy = parse_mode(value)?,
                "sslrootcert" if value == SYSTEM_ROOTS => roots = None,
                "sslrootcert" => roots = Some(decode_path(name, value)?),
                "sslcert" => certificate = Some(decode_path(name, value)?),
                _ => key = Some(decode_path(name, value)?),
            }
        }
        let options = TlsOptions::new(&NAMES, roots, certificate, key)?;
        if policy == Policy::Never && pairs.len() > 1 {
            return Err("sslmode=disable uses no certificates; leave out sslrootcert, sslcert and sslkey, or set sslmode=verify-full".to_owned());
        }
        options.check_files()?;
        Ok(Self { policy, options })
    }

    /// TLS to the server at `place`; `None` for plain text.
    pub(super) fn to_server(&self, config: &Config, place: usize) -> Option<&TlsOptions> {
        let host = config.get_hosts().get(place);
        let is_encrypted = match (self.policy, host) {
            (Policy::Never, _) | (_, Some(Host::Unix(_))) => false,
            (Policy::Always, _) => true,
            (Policy::ExceptLoopback, host) => !is_loopback(host, config.get_hostaddrs().get(place).copied()),
        };
        is_encrypted.then_some(&self.options)
    }
}

fn parse_mode(mode: &str) -> Result<Policy, String> {
    match mode {
        "disable" => Ok(Policy::Never),
        "require" | "verify-ca" | "verify-full" => Ok(Policy::Always),
        "prefer" | "allow" => Err(format!(
            "sslmode={mode} may fall back to plain text and is not supported; use sslmode=verify-full or sslmode=disable"
        )),
        _ => Err("sslmode must be disable, require, verify-ca or verify-full".to_owned()),
    }
}

/// The address takes precedence over the name, as it does for the driver.
fn is_loopback(host: Option<&Host>, address: Option<IpAddr>) -> bool {
    match (address, host) {
        (Some(address), _) => address.is_loopback(),
        (None, Some(Host::Tcp(name))) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
        (None, Some(Host::Unix(_)) | None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each server of the URL is reached with TLS.
    fn encrypted(url: &str) -> Vec<bool> {
        let (driver, tls) = DatabaseTls::split_from(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        let config: Config = driver.parse().expect("a URL");
        let servers = config.get_hosts().len().max(config.get_hostaddrs().len());
        (0..servers).map(|place| tls.to_server(&config, place).is_some()).collect()
    }

    #[test]
    fn only_loopback_and_sockets_are_reached_without_tls_by_default() {
        let hosts = "localhost,127.0.0.1,[::1],%2Frun,db.example,192.0.2.1";
        let url = format!("postgres://u@{hosts}/d?connect_timeout=3");
        assert_eq!(encrypted(&url), [false, false, false, false, true, true]);
        assert_eq!(encrypted(&format!("{url}&sslmode=disable")), [false; 6]);
        for mode in ["require", "verify-ca", "verify-full"] {
            assert_eq!(encrypted(&format!("{url}&sslmode={mode}")), [true, true, true, false, true, true]);
        }
        assert_eq!(encrypted("postgres://u@db.example/d?hostaddr=127.0.0.1"), [false]);
        assert_eq!(encrypted("postgres://u@localhost/d?hostaddr=192.0.2.1"), [true]);
    }

    #[test]
    fn refuses_files_that_cannot_be_read_and_contradictions() {
        let refusal = |query: &str| {
            let split = DatabaseTls::split_from(&format!("postgres://u:hunter2@h/d?{query}"));
            split.err().unwrap_or_else(|| panic!("{query} is accepted"))
        };
        for (query, said) in [
            ("sslrootcert=/none/ca.pem", "sslrootcert /none/ca.pem: "),
            ("sslrootcert=", "sslrootcert must be the path of a file"),
            ("sslcert=/none/a%20b.pem", "sslcert and sslkey must be set together"),
            ("sslcert=/none/a%20b.pem&sslkey=/none/key.pem", "sslcert /none/a b.pem: "),
            ("sslmode=disable&sslrootcert=system", "sslmode=disable uses no certificates"),
            ("sslmode=allow", "may fall back to plain text"),
        ] {
            let says = refusal(query);
            assert!(says.contains(said) && !says.contains("hunter2"), "{query}: {says}");
        }
    }
}
