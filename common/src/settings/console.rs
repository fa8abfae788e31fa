//! Where the settings area listens, and under which URL browsers reach it.

use super::{Environment, Section, SettingError, SettingValue, Variable, error};
use crate::variables;
use hyper::Uri;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The address and the public URL of `connect-console`.
#[derive(Clone, Debug)]
pub struct ConsoleSettings {
    /// Where it listens.
    pub addr: SocketAddr,
    /// `CONNECT_CONSOLE_URL`; `None` if it follows from the address.
    pub url: Option<ConsoleUrl>,
}

/// The setting of the public URL, which ingest's page of the API links to.
pub const CONSOLE_URL: Variable = Variable {
    name: "CONNECT_CONSOLE_URL",
    default: Some(""),
    help: "URL under which browsers reach the settings area, such as https://console.example.com, for sign-in links and the check of forms, and for the link on the page /docs; the console takes it from CONNECT_CONSOLE_ADDR when not set, and requires it when that is no loopback address",
};

/// The public base URL of the settings area: scheme, host and port, without a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleUrl(String);

impl ConsoleUrl {
    /// The URL of a console that listens on `addr`.
    pub fn of(addr: SocketAddr) -> Self {
        Self(format!("http://{addr}"))
    }

    /// Scheme, host and port, as browsers send them in `Origin`.
    pub fn origin(&self) -> &str {
        &self.0
    }

    /// Whether browsers reach the console with TLS.
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https://")
    }
}

impl fmt::Display for ConsoleUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a host of a URL is this machine.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The URL as browsers write it in `Origin`: lower case, and without the default port.
fn parse(text: &str) -> Option<ConsoleUrl> {
    let url: Uri = text.strip_suffix('/').unwrap_or(text).parse().ok()?;
    let (scheme, authority) = (url.scheme_str()?, url.authority()?);
    let is_allowed = scheme == "https" || (scheme == "http" && is_loopback(authority.host()));
    let is_origin = url.path() == "/" && url.query().is_none() && !authority.as_str().contains('@');
    if !is_allowed || !is_origin {
        return None;
    }
    let host = authority.host().to_lowercase();
    let default = if scheme == "https" { 443 } else { 80 };
    let port = url.port_u16().filter(|port| *port != default);
    Some(ConsoleUrl(port.map_or_else(|| format!("{scheme}://{host}"), |port| format!("{scheme}://{host}:{port}"))))
}

impl SettingValue for ConsoleUrl {
    fn parse_setting(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| {
            "must be a URL without a path such as https://console.example.com; http:// is allowed for loopback hosts only".to_owned()
        })
    }
}

impl ConsoleSettings {
    /// The URL of a console that listens on `bound`.
    pub fn url_at(&self, bound: SocketAddr) -> ConsoleUrl {
        self.url.clone().unwrap_or_else(|| ConsoleUrl::of(bound))
    }
}

impl Section for ConsoleSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_CONSOLE_ADDR" => "127.0.0.1:8090", "address the settings area listens on; with port 0 the system chooses a free port";
        CONSOLE_URL.name => optional, CONSOLE_URL.help;
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let addr: SocketAddr = env.get::<Self, _>("CONNECT_CONSOLE_ADDR")?;
        let url = env.optional::<Self, ConsoleUrl>("CONNECT_CONSOLE_URL")?;
        if url.is_none() && !addr.ip().is_loopback() {
            return Err(error("CONNECT_CONSOLE_URL", "is required when CONNECT_CONSOLE_ADDR is no loopback address"));
        }
        Ok(Self { addr, url })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_an_origin_with_tls_or_on_loopback() {
        for (given, origin) in [
            ("https://Console.Example.com/", "https://console.example.com"),
            ("https://console.example.com:443", "https://console.example.com"),
            ("https://console.example.com:8443", "https://console.example.com:8443"),
            ("http://localhost:8090", "http://localhost:8090"),
            ("http://[::1]:8090", "http://[::1]:8090"),
        ] {
            assert_eq!(parse(given).unwrap().origin(), origin);
        }
        for wrong in [
            "console.example.com", "http://console.example.com", "https://console.example.com/a",
            "https://console.example.com/?a", "https://a@console.example.com", "ftp://localhost", "https://",
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn the_url_follows_from_a_loopback_address_only() {
        let read = |addr| ConsoleSettings::from_env(&Environment::from_pairs(&[("CONNECT_CONSOLE_ADDR", addr)]));
        let settings = read("127.0.0.1:9000").unwrap();
        assert_eq!(settings.url_at(settings.addr).to_string(), "http://127.0.0.1:9000");
        assert!(read("0.0.0.0:9000").unwrap_err().to_string().starts_with("setting CONNECT_CONSOLE_URL: is required"));
    }
}
