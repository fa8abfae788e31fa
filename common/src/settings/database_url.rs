//! Parses the value of `DATABASE_URL` (declared in `sections`) strictly. Options that this version does not support are refused at the start instead of being ignored
//! (docs/settings.md).

use super::SettingValue;
use super::database_tls::DatabaseTls;
use super::servers::{PreferredServer, options};
use crate::sealed::Secret;
use crate::tls::TlsOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;

const FORM: &str = "must be a Postgres URL such as postgres://user@host:5432/connect";
const ESCAPE: &str = "must have '@', '/' and '?' percent-encoded within user name, password and database name";

/// Options that are passed to the driver.
const SUPPORTED_OPTIONS: [&str; 14] = [
    "user", "password", "dbname", "options", "host", "hostaddr", "port", "connect_timeout", "tcp_user_timeout",
    "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_retries", "load_balance_hosts",
];

/// Other options of libpq. The error names these only, because any other text may be part of a password.
const UNSUPPORTED_OPTIONS: [&str; 28] = [
    "sslnegotiation", "sslcompression", "sslkeylogfile", "sslpassword", "sslcertmode", "sslcrl", "sslcrldir", "sslsni",
    "ssl_min_protocol_version", "ssl_max_protocol_version", "requiressl", "application_name",
    "fallback_application_name", "passfile", "require_auth", "client_encoding", "replication", "gssencmode", "gsslib",
    "gssdelegation", "krbsrvname", "requirepeer", "service", "servicefile", "min_protocol_version",
    "max_protocol_version", "scram_client_key", "scram_server_key",
];

/// A Postgres URL of which every part is supported, and what was learned about its servers, which clones share.
#[derive(Clone, Debug)]
pub struct DatabaseUrl {
    /// As written.
    written: Secret,
    /// What the driver knows of it: without the options for TLS.
    driver: Secret,
    tls: DatabaseTls,
    is_for_writes: bool,
    servers: usize,
    preferred: PreferredServer,
    omits_options: Arc<AtomicBool>,
}

impl DatabaseUrl {
    /// Whether sessions may be opened with options.
    pub(crate) fn accepts_options(&self) -> bool {
        !self.omits_options.load(Ordering::Relaxed)
    }

    /// The server is a pooler that refuses options: sessions are opened without them from now on. Whether they were not before.
    pub(crate) fn omit_options(&self) -> bool {
        !self.omits_options.swap(true, Ordering::Relaxed)
    }

    /// The same servers, of which only those that accept writes are used if there are several; unless the URL has its own
    /// `target_session_attrs`.
    #[must_use]
    pub fn for_writes(self) -> Self {
        Self { is_for_writes: true, ..self }
    }

    /// Whether its connections are for writes.
    pub(crate) const fn is_for_writes(&self) -> bool {
        self.is_for_writes
    }

    /// The driver's configuration for it. TLS is not part of it, see [`tls`](Self::tls).
    pub fn config(&self) -> Config {
        let mut config: Config = self.driver.reveal().parse().expect("checked when the settings were read");
        let query = self.driver.reveal().split_once('?').map_or("", |(_, query)| query);
        let has_own = query.contains("target_session_attrs=");
        if self.is_for_writes && self.servers > 1 && !has_own {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        config
    }

    /// TLS to the server at `place`; `None` for plain text.
    pub(crate) fn tls(&self, config: &Config, place: usize) -> Option<&TlsOptions> {
        self.tls.to_server(config, place)
    }

    /// The number of its servers, at least one.
    pub const fn servers(&self) -> usize {
        self.servers
    }

    /// The place of the server to try first.
    pub fn preferred(&self) -> usize {
        self.preferred.place(self.servers)
    }

    /// The server at `place` responded: it is tried first from now on.
    pub fn prefer(&self, place: usize) {
        self.preferred.prefer(place);
    }

    /// The server at `place` did not respond: if it was tried first, the next one is from now on.
    pub fn avoid(&self, place: usize) {
        self.preferred.avoid(place, self.servers);
    }
}

impl PartialEq for DatabaseUrl {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl SettingValue for DatabaseUrl {
    fn parse_setting(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        check_parts(rest.ok_or(FORM)?)?;
        let (driver, tls) = DatabaseTls::split_from(text)?;
        let config: Config = driver.parse().map_err(|_| FORM)?;
        let (names, addresses, ports) =
            (config.get_hosts().len(), config.get_hostaddrs().len(), config.get_ports().len());
        let servers = names.max(addresses);
        if servers == 0 {
            return Err(format!("{FORM}: it names no host"));
        }
        if (names > 0 && addresses > 0 && names != addresses) || (ports > 1 && ports != servers) {
            return Err("must have as many ports, and as many addresses in hostaddr, as hosts".to_owned());
        }
        let (written, driver) = (Secret::new(text.to_owned()), Secret::new(driver));
        let (preferred, omits_options) = (PreferredServer::default(), Arc::default());
        Ok(Self { written, driver, tls, is_for_writes: false, servers, preferred, omits_options })
    }
}

/// Checks what the driver parses leniently: the delimiters and the options.
fn check_parts(rest: &str) -> Result<(), String> {
    // The driver ends user name and password at the first '@'.
    let (_, servers) = rest.split_once('@').unwrap_or(("", rest));
    let (place, query) = servers.split_once('?').unwrap_or((servers, ""));
    let database = place.split_once('/').map_or("", |(_, database)| database);
    if servers.contains('@') || database.contains('/') {
        return Err(ESCAPE.to_owned());
    }
    options(query).try_for_each(check_option)
}

fn check_option((name, value): (&str, &str)) -> Result<(), String> {
    match (name, value) {
        ("channel_binding", "disable" | "prefer" | "require") => Ok(()),
        ("channel_binding", _) => Err("channel_binding must be disable, prefer or require".to_owned()),
        ("application_name" | "fallback_application_name", _) => {
            Err(format!("{name} is set by the programs themselves; leave it out"))
        }
        ("target_session_attrs", "any" | "read-write" | "read-only") => Ok(()),
        ("target_session_attrs", _) => Err("target_session_attrs must be any, read-write or read-only".to_owned()),
        _ if DatabaseTls::OPTIONS.contains(&name) => Ok(()),
        _ if SUPPORTED_OPTIONS.contains(&name) => Ok(()),
        _ if UNSUPPORTED_OPTIONS.contains(&name) => Err(format!("{name} is not supported; leave it out")),
        _ => Err("has an option after '?' that is not known".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        DatabaseUrl::parse_setting(text).err().unwrap_or_else(|| panic!("{text} is accepted"))
    }

    #[test]
    fn supported_urls_are_accepted() {
        for (fine, servers) in [
            ("postgres://u:p@h:1/d", 1),
            ("postgresql://h", 1),
            ("postgres://u:p%40%2F@h/d?sslmode=disable&connect_timeout=3", 1),
            ("postgres://u:hunter2@h/d?sslmode=require", 1),
            ("postgres://u@a:1,b:2,[::1]:3/d?target_session_attrs=read-write", 3),
            ("postgres://u@%2Fvar%2Frun/d", 1),
            ("postgres:///d?host=/var/run&options=-c%20search_path%3Dx", 1),
        ] {
            assert_eq!(DatabaseUrl::parse_setting(fine).map(|url| url.servers()), Ok(servers), "{fine}");
        }
    }

    #[test]
    fn unsupported_urls_are_refused_without_repeating_secrets() {
        for (text, said) in [
            ("host=h password=hunter2", "must be a Postgres URL"),
            ("mysql://u:hunter2@h", "must be a Postgres URL"),
            ("postgres://u:hunter2@", "names no host"),
            ("postgres://u:hunter2@h/d?sslmode=prefer", "may fall back to plain text"),
            ("postgres://u:hunter2@h/d?sslmode=hunter2", "sslmode must be disable"),
            ("postgres://u:hunter2@h/d?sslcrl=/x.pem", "sslcrl is not supported"),
            ("postgres://u:hunter2@h/d?channel_binding=on", "channel_binding must be"),
            ("postgres://u:hunter2@h/d?target_session_attrs=primary", "target_session_attrs must be any"),
            ("postgres://u:hunter2@h/d?gssencmode=require", "gssencmode is not supported"),
            ("postgres://u:hunter2@h/d?application_name=x", "application_name is set by the programs"),
            ("postgres://u:x@hunter2@h/d", "percent-encoded"),
            ("postgres://u:x@y/hunter2@h/d", "percent-encoded"),
            ("postgres://h/d?hunter2=1", "an option after '?' that is not known"),
            ("postgres://u:hunter2@a:1,b:2,c/d?port=4", "as many ports"),
        ] {
            let says = refusal(text);
            assert!(says.contains(said) && !says.contains("hunter2"), "{text}: {says}");
        }
    }

    #[test]
    fn several_servers_for_writes_must_accept_writes() {
        let attributes = |text: &str| {
            let url = DatabaseUrl::parse_setting(text).unwrap();
            [url.config(), url.for_writes().config()].map(|config| config.get_target_session_attrs())
        };
        use TargetSessionAttrs::{Any, ReadWrite};
        assert_eq!(attributes("postgres://a,b/d"), [Any, ReadWrite]);
        assert_eq!(attributes("postgres://a/d"), [Any, Any]);
        assert_eq!(attributes("postgres://a,b/d?target_session_attrs=any"), [Any, Any]);
    }
}
