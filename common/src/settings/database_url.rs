//! `DATABASE_URL`: read strictly. What this version can't honor is refused at the start instead of being passed over
//! (operator's contract, Settings).

use super::SettingValue;
use crate::sealed::Secret;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_postgres::Config;

const FORM: &str = "must be a Postgres URL such as postgres://user@host:5432/connect";
const ESCAPE: &str =
    "must have '@', '/' and '?' percent-encoded within user name, password and database name";

/// What is handed to the driver as it is.
const HONORED: [&str; 15] = [
    "user",
    "password",
    "dbname",
    "options",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "load_balance_hosts",
];

/// Options of libpq that need TLS.
const OF_TLS: [&str; 14] = [
    "sslnegotiation",
    "sslcompression",
    "sslcert",
    "sslkey",
    "sslkeylogfile",
    "sslpassword",
    "sslcertmode",
    "sslrootcert",
    "sslcrl",
    "sslcrldir",
    "sslsni",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "requiressl",
];

/// Other options of libpq, which may be named in the refusal. Any other text may be a part of a password.
const OTHERS: [&str; 17] = [
    "application_name",
    "fallback_application_name",
    "passfile",
    "require_auth",
    "client_encoding",
    "replication",
    "gssencmode",
    "gsslib",
    "gssdelegation",
    "krbsrvname",
    "requirepeer",
    "service",
    "servicefile",
    "min_protocol_version",
    "max_protocol_version",
    "scram_client_key",
    "scram_server_key",
];

/// A Postgres URL whose every part can be honored, and which of its servers answered last. Clones share the latter.
#[derive(Clone, Debug)]
pub struct DatabaseUrl {
    text: Secret,
    servers: usize,
    preferred: Arc<AtomicUsize>,
}

impl DatabaseUrl {
    /// The URL as written, with its password.
    pub fn reveal(&self) -> &str {
        self.text.reveal()
    }

    /// What the driver makes of it.
    pub fn config(&self) -> Config {
        self.text.reveal().parse().expect("checked when the settings were read")
    }

    /// How many servers it names, one at least.
    pub const fn servers(&self) -> usize {
        self.servers
    }

    /// The place of the server to try first.
    pub fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed) % self.servers
    }

    /// The server at `place` answered: it is tried first from now on.
    pub fn prefer(&self, place: usize) {
        self.preferred.store(place, Ordering::Relaxed);
    }

    /// The server at `place` didn't answer: if it was tried first, the next one is from now on.
    pub fn avoid(&self, place: usize) {
        let next = (place + 1) % self.servers;
        // Where somebody else has found a better one meanwhile, that one stays.
        let _ = self.preferred.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl PartialEq for DatabaseUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl SettingValue for DatabaseUrl {
    fn read(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        check_parts(rest.ok_or(FORM)?)?;
        let config: Config = text.parse().map_err(|_| FORM)?;
        let (names, addresses, ports) =
            (config.get_hosts().len(), config.get_hostaddrs().len(), config.get_ports().len());
        let servers = names.max(addresses);
        if servers == 0 {
            return Err(format!("{FORM}: it names no host"));
        }
        if (names > 0 && addresses > 0 && names != addresses) || (ports > 1 && ports != servers) {
            return Err("must have as many ports, and as many addresses in hostaddr, as hosts".to_owned());
        }
        Ok(Self { text: Secret::new(text.to_owned()), servers, preferred: Arc::default() })
    }
}

/// Checks what the driver reads leniently: the delimiters and the options.
fn check_parts(rest: &str) -> Result<(), String> {
    // The driver ends user name and password at the first '@'.
    let (_, servers) = rest.split_once('@').unwrap_or(("", rest));
    let (place, query) = servers.split_once('?').unwrap_or((servers, ""));
    let database = place.split_once('/').map_or("", |(_, database)| database);
    if servers.contains('@') || database.contains('/') {
        return Err(ESCAPE.to_owned());
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).try_for_each(check_option)
}

fn check_option((name, value): (&str, &str)) -> Result<(), String> {
    const NO_TLS: &str = "this version connects without TLS only";
    match (name, value) {
        ("sslmode", "disable") | ("channel_binding", "disable" | "prefer") => Ok(()),
        ("sslmode", mode @ ("prefer" | "allow")) => Err(format!(
            "sslmode={mode} may fall back to plain text and is not supported; use sslmode=disable"
        )),
        ("sslmode", mode @ ("require" | "verify-ca" | "verify-full")) => {
            Err(format!("sslmode={mode} asks for TLS, but {NO_TLS}; use sslmode=disable"))
        }
        ("sslmode", _) => Err("sslmode must be disable".to_owned()),
        ("channel_binding", _) => Err(format!("channel_binding needs TLS, but {NO_TLS}; leave it out")),
        ("application_name" | "fallback_application_name", _) => {
            Err(format!("{name} is set by the programs themselves; leave it out"))
        }
        _ if HONORED.contains(&name) => Ok(()),
        _ if OF_TLS.contains(&name) => Err(format!("{name} needs TLS, but {NO_TLS}; leave it out")),
        _ if OTHERS.contains(&name) => Err(format!("{name} is not supported; leave it out")),
        _ => Err("has an option after '?' that is not known".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        DatabaseUrl::read(text).err().unwrap_or_else(|| panic!("{text} is accepted"))
    }

    #[test]
    fn what_can_be_honored_is_accepted() {
        for (fine, servers) in [
            ("postgres://u:p@h:1/d", 1),
            ("postgresql://h", 1),
            ("postgres://u:p%40%2F@h/d?sslmode=disable&connect_timeout=3", 1),
            ("postgres://u@a:1,b:2,[::1]:3/d?target_session_attrs=read-write", 3),
            ("postgres://u@%2Fvar%2Frun/d", 1),
            ("postgres:///d?host=/var/run&options=-c%20search_path%3Dx", 1),
        ] {
            assert_eq!(DatabaseUrl::read(fine).map(|url| url.servers()), Ok(servers), "{fine}");
        }
    }

    #[test]
    fn what_cannot_be_honored_is_refused_and_no_secret_repeated() {
        for (text, said) in [
            ("host=h password=hunter2", "must be a Postgres URL"),
            ("mysql://u:hunter2@h", "must be a Postgres URL"),
            ("postgres://u:hunter2@", "names no host"),
            ("postgres://u:hunter2@h/d?sslmode=require", "sslmode=require asks for TLS"),
            ("postgres://u:hunter2@h/d?sslmode=verify-full", "sslmode=verify-full"),
            ("postgres://u:hunter2@h/d?sslmode=prefer", "may fall back to plain text"),
            ("postgres://u:hunter2@h/d?sslmode=hunter2", "sslmode must be disable"),
            ("postgres://u:hunter2@h/d?sslrootcert=/x.pem", "sslrootcert needs TLS"),
            ("postgres://u:hunter2@h/d?channel_binding=require", "channel_binding needs TLS"),
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
    fn the_server_that_answered_last_is_tried_first() {
        let url = DatabaseUrl::read("postgres://a,b,c/d").unwrap();
        assert_eq!(url.preferred(), 0);
        url.avoid(0);
        assert_eq!(url.clone().preferred(), 1);
        url.prefer(2);
        url.avoid(0);
        assert_eq!(url.preferred(), 2);
        url.avoid(2);
        assert_eq!(url.preferred(), 0);
    }
}
