//! `AMQP_URL`: one URL or several, read strictly. Options that this version does not support are refused at the
//! start instead of being ignored (docs/settings.md).

use super::SettingValue;
use super::servers::{PreferredServer, options, places_from};
use crate::sealed::Secret;
use crate::tls::{OptionNames, TlsOptions, decode_path};
use lapin::uri::{AMQPScheme, AMQPUri};
use std::sync::Arc;

const FORM: &str = "must be an AMQP URL such as amqp://user@host:5672/%2f, or several separated by commas";
const ESCAPE: &str = "must have '@', '/', '?', '#' and ',' percent-encoded within user name, password and virtual host";

/// Maximum number of brokers that a setting may list.
const URLS_MAX: usize = 16;

const SUPPORTED_OPTIONS: [&str; 4] = ["frame_max", "channel_max", "heartbeat", "connection_timeout"];

/// RabbitMQ's options for TLS that are supported.
const TLS_OPTIONS: [&str; 5] = ["cacertfile", "certfile", "keyfile", "server_name_indication", "verify"];

/// RabbitMQ's other options for TLS.
const UNSUPPORTED_TLS_OPTIONS: [&str; 3] = ["fail_if_no_peer_cert", "password", "depth"];

/// The names that errors use.
pub(crate) const NAMES: OptionNames = OptionNames { roots: "cacertfile", certificate: "certfile", key: "keyfile" };

#[derive(Debug)]
pub(crate) struct BrokerUrl {
    pub(crate) uri: AMQPUri,
    /// Set for `amqps://`.
    pub(crate) tls: Option<BrokerTls>,
}

#[derive(Debug)]
pub(crate) struct BrokerTls {
    pub(crate) options: TlsOptions,
    /// The name that the broker's certificate must be valid for.
    pub(crate) server_name: String,
}

impl BrokerUrl {
    /// `host:port`.
    pub(crate) fn address(&self) -> String {
        let authority = &self.uri.authority;
        if authority.host.contains(':') {
            format!("[{}]:{}", authority.host, authority.port)
        } else {
            format!("{}:{}", authority.host, authority.port)
        }
    }
}

/// The brokers' URLs, and which of them is tried first; clones share the latter.
#[derive(Clone, Debug)]
pub struct BrokerUrls {
    all: Arc<[Secret]>,
    preferred: PreferredServer,
}

impl BrokerUrls {
    /// The number of URLs, at least one.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// All URLs with their indexes, beginning with the one to try first.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (usize, BrokerUrl)> {
        let places = places_from(self.preferred.place(self.count()), self.count());
        places.filter_map(|place| Some((place, parse(self.all.get(place)?.reveal()).ok()?)))
    }

    /// The broker at `place` responded: it is tried first from now on.
    pub(crate) fn prefer(&self, place: usize) {
        self.preferred.prefer(place);
    }

    /// The broker that is tried first failed: the next one is tried first from now on.
    pub(crate) fn skip(&self) {
        self.avoid(self.preferred.place(self.count()));
    }

    /// A connection to the broker at `place` was lost: if it is tried first, the next one is from now on.
    pub(crate) fn avoid(&self, place: usize) {
        self.preferred.avoid(place, self.count());
    }
}

impl SettingValue for BrokerUrls {
    fn parse_setting(text: &str) -> Result<Self, String> {
        let urls: Vec<&str> = text.split(',').map(str::trim).collect();
        if urls.len() > URLS_MAX {
            return Err(format!("must have at most {URLS_MAX} URLs"));
        }
        for url in &urls {
            if let Some(tls) = parse(url)?.tls {
                tls.options.check_files()?;
            }
        }
        let all = urls.into_iter().map(|url| Secret::new(url.to_owned())).collect();
        Ok(Self { all, preferred: PreferredServer::default() })
    }
}

/// Parses one URL. The error never repeats a part of it that may be a secret.
fn parse(url: &str) -> Result<BrokerUrl, String> {
    let (scheme, rest) = url.split_once("://").ok_or(FORM)?;
    if !scheme.eq_ignore_ascii_case("amqp") && !scheme.eq_ignore_ascii_case("amqps") {
        return Err(FORM.to_owned());
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, vhost) = place.split_once('/').unwrap_or((place, ""));
    if authority.matches('@').count() > 1 || vhost.contains(['@', '/']) || query.contains('@') || rest.contains('#') {
        return Err(ESCAPE.to_owned());
    }
    let is_encrypted = scheme.eq_ignore_ascii_case("amqps");
    options(query).try_for_each(|(name, value)| check_option(name, value, is_encrypted))?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if host.is_empty() || host.starts_with(':') {
        return Err(format!("{FORM}: it names no host"));
    }
    let mut uri: AMQPUri = url.parse().map_err(|_| FORM)?;
    // The library ignores an address in brackets and uses its default host instead.
    if let Some((address, _)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        address.clone_into(&mut uri.authority.host);
    }
    let tls = match uri.scheme {
        AMQPScheme::AMQP => None,
        AMQPScheme::AMQPS => Some(parse_tls(&uri.authority.host, query)?),
    };
    Ok(BrokerUrl { uri, tls })
}

/// The options for TLS to the broker `host`.
fn parse_tls(host: &str, query: &str) -> Result<BrokerTls, String> {
    let (mut roots, mut certificate, mut key) = (None, None, None);
    let mut server_name = host.to_owned();
    for (name, value) in options(query) {
        match name {
            "cacertfile" => roots = Some(decode_path(name, value)?),
            "certfile" => certificate = Some(decode_path(name, value)?),
            "keyfile" => key = Some(decode_path(name, value)?),
            "server_name_indication" => value.clone_into(&mut server_name),
            _ => {}
        }
    }
    Ok(BrokerTls { options: TlsOptions::new(&NAMES, roots, certificate, key)?, server_name })
}

fn check_option(name: &str, value: &str, is_encrypted: bool) -> Result<(), String> {
    match name {
        "auth_mechanism" if matches!(value.to_ascii_lowercase().as_str(), "plain" | "amqplain") => Ok(()),
        // The broker takes the user's name from the client certificate.
        "auth_mechanism" if is_encrypted && value.eq_ignore_ascii_case("external") => Ok(()),
        "auth_mechanism" => Err("auth_mechanism must be plain or amqplain, or with amqps:// external".to_owned()),
        _ if SUPPORTED_OPTIONS.contains(&name) => Ok(()),
        _ if TLS_OPTIONS.contains(&name) && !is_encrypted => {
            Err(format!("{name} needs TLS, but the URL begins with amqp://; use amqps://, or leave it out"))
        }
        "verify" if value != "verify_peer" => {
            Err("verify must be verify_peer: the broker's certificate is always verified".to_owned())
        }
        "server_name_indication" if value.is_empty() || value == "disable" => {
            Err("server_name_indication must be a host's name: it is always verified".to_owned())
        }
        _ if TLS_OPTIONS.contains(&name) => Ok(()),
        _ if UNSUPPORTED_TLS_OPTIONS.contains(&name) => Err(format!("{name} is not supported; leave it out")),
        _ => Err("has an option after '?' that is not known".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_several_urls_are_tried_in_turn() {
        let urls =
            BrokerUrls::parse_setting("amqp://u:p@a:1/v?heartbeat=5, amqp://[2001:db8::1]/%2f,AMQP://c").unwrap();
        let hosts = || urls.in_order().map(|(_, url)| url.uri.authority.host).collect::<Vec<_>>();
        assert_eq!(hosts(), ["a", "2001:db8::1", "c"]);
        urls.prefer(2);
        assert_eq!(hosts(), ["c", "a", "2001:db8::1"]);
        urls.clone().skip();
        assert_eq!(hosts(), ["a", "2001:db8::1", "c"]);
        urls.avoid(0);
        urls.avoid(0);
        assert_eq!(hosts(), ["2001:db8::1", "c", "a"], "once, however many connections were lost");
    }

    #[test]
    fn tls_is_used_for_amqps_only_and_verifies_the_host() {
        let urls = BrokerUrls::parse_setting(
            "amqps://b.example/%2f,amqps://192.0.2.1:1?server_name_indication=b.example&verify=verify_peer,amqp://c",
        )
        .unwrap();
        let seen: Vec<_> =
            urls.in_order().map(|(_, url)| (url.address(), url.tls.map(|tls| tls.server_name))).collect();
        let expected = [("b.example:5671", Some("b.example")), ("192.0.2.1:1", Some("b.example")), ("c:5672", None)];
        assert_eq!(seen, expected.map(|(address, name)| (address.to_owned(), name.map(str::to_owned))));
    }

    #[test]
    fn unsupported_urls_are_refused_without_repeating_secrets() {
        for (text, said) in [
            ("hunter2", "must be an AMQP URL"),
            ("http://u:hunter2@h", "must be an AMQP URL"),
            ("amqp://u:hunter2@", "names no host"),
            ("amqps://u:hunter2@h?verify=verify_none", "verify must be verify_peer"),
            ("amqps://u:hunter2@h?server_name_indication=disable", "must be a host's name"),
            ("amqps://u:hunter2@h?certfile=/x.pem", "certfile and keyfile must be set together"),
            ("amqp://u:p@h,amqps://u:hunter2@h?cacertfile=/none/ca.pem", "cacertfile /none/ca.pem: "),
            ("amqps://u:hunter2@h?depth=1", "depth is not supported"),
            ("amqp://u:hunter2@h?cacertfile=/x.pem", "cacertfile needs TLS"),
            ("amqp://u:hunter2@h?auth_mechanism=external", "auth_mechanism must be"),
            ("amqp://u:hunter2@h?heartbeat=often", "must be an AMQP URL"),
            ("amqp://u:hun,ter2@h", "must be an AMQP URL"),
            ("amqp://u:1/hunter2@h", "percent-encoded"),
            ("amqp://u:1?hunter2@h", "percent-encoded"),
            ("amqp://u:1#hunter2@h", "percent-encoded"),
            ("amqp://u:1@hunter2@h", "percent-encoded"),
            ("amqp://h?hunter2=1", "an option after '?' that is not known"),
        ] {
            let says = BrokerUrls::parse_setting(text).err().unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(says.contains(said) && !says.contains("hunter2"), "{text}: {says}");
        }
    }
}
