//! `AMQP_URL`: one URL or several, read strictly. What this version can't honor is refused at the start instead of
//! being passed over (operator's contract, Settings).

use super::SettingValue;
use crate::sealed::Secret;
use lapin::uri::AMQPUri;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const FORM: &str = "must be an AMQP URL such as amqp://user@host:5672/%2f, or several separated by commas";
const ESCAPE: &str =
    "must have '@', '/', '?', '#' and ',' percent-encoded within user name, password and virtual host";

/// Most brokers.
const MOST: usize = 16;

/// Options that are honored.
const HONORED: [&str; 4] = ["frame_max", "channel_max", "heartbeat", "connection_timeout"];

/// RabbitMQ's own options that need TLS.
const OF_TLS: [&str; 7] = [
    "cacertfile",
    "certfile",
    "keyfile",
    "verify",
    "fail_if_no_peer_cert",
    "server_name_indication",
    "depth",
];

/// The brokers, and which of them answered last. Clones share the latter.
#[derive(Clone, Debug)]
pub struct BrokerUrls {
    all: Arc<[Secret]>,
    preferred: Arc<AtomicUsize>,
}

impl BrokerUrls {
    /// How many there are, one at least.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// All of them with their places, the one to try first first.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (usize, AMQPUri)> {
        let first = self.preferred.load(Ordering::Relaxed);
        let places = (0..self.count()).map(move |place| (first + place) % self.count());
        places.filter_map(|place| Some((place, parse(self.all.get(place)?.reveal()).ok()?)))
    }

    /// The broker at `place` answered: it is tried first from now on.
    pub(crate) fn prefer(&self, place: usize) {
        self.preferred.store(place, Ordering::Relaxed);
    }

    /// The broker that is tried first didn't do: the next one is, from now on.
    pub(crate) fn skip(&self) {
        self.preferred.fetch_add(1, Ordering::Relaxed);
    }
}

impl SettingValue for BrokerUrls {
    fn read(text: &str) -> Result<Self, String> {
        let urls: Vec<&str> = text.split(',').map(str::trim).collect();
        if urls.len() > MOST {
            return Err(format!("must have at most {MOST} URLs"));
        }
        urls.iter().try_for_each(|url| parse(url).map(drop))?;
        let all = urls.into_iter().map(|url| Secret::new(url.to_owned())).collect();
        Ok(Self { all, preferred: Arc::default() })
    }
}

/// Reads one URL. The error never repeats a part of it that may be a secret.
fn parse(url: &str) -> Result<AMQPUri, String> {
    let (scheme, rest) = url.split_once("://").ok_or(FORM)?;
    if scheme.eq_ignore_ascii_case("amqps") {
        return Err(
            "amqps:// asks for TLS, but this version connects without TLS only; use amqp://".to_owned()
        );
    }
    if !scheme.eq_ignore_ascii_case("amqp") {
        return Err(FORM.to_owned());
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, vhost) = place.split_once('/').unwrap_or((place, ""));
    if authority.matches('@').count() > 1
        || vhost.contains(['@', '/'])
        || query.contains('@')
        || rest.contains('#')
    {
        return Err(ESCAPE.to_owned());
    }
    query.split('&').filter(|pair| !pair.is_empty()).try_for_each(check_option)?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if host.is_empty() || host.starts_with(':') {
        return Err(format!("{FORM}: it names no host"));
    }
    let mut uri: AMQPUri = url.parse().map_err(|_| FORM)?;
    // The library takes an address in brackets for no host at all, which it then replaces by its default.
    if let Some((address, _)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        address.clone_into(&mut uri.authority.host);
    }
    Ok(uri)
}

fn check_option(pair: &str) -> Result<(), String> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    match name {
        "auth_mechanism" if matches!(value.to_ascii_lowercase().as_str(), "plain" | "amqplain") => Ok(()),
        "auth_mechanism" => Err("auth_mechanism must be plain or amqplain".to_owned()),
        _ if HONORED.contains(&name) => Ok(()),
        _ if OF_TLS.contains(&name) => {
            Err(format!("{name} needs TLS, but this version connects without TLS only; leave it out"))
        }
        _ => Err("has an option after '?' that is not known".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_several_urls_are_tried_in_turn() {
        let urls =
            BrokerUrls::read("amqp://u:p@a:1/v?heartbeat=5, amqp://[2001:db8::1]/%2f,AMQP://c").unwrap();
        let hosts = || urls.in_order().map(|(_, uri)| uri.authority.host).collect::<Vec<_>>();
        assert_eq!(hosts(), ["a", "2001:db8::1", "c"]);
        urls.prefer(2);
        assert_eq!(hosts(), ["c", "a", "2001:db8::1"]);
        urls.clone().skip();
        assert_eq!(hosts(), ["a", "2001:db8::1", "c"]);
    }

    #[test]
    fn what_cannot_be_honored_is_refused_and_no_secret_repeated() {
        for (text, said) in [
            ("hunter2", "must be an AMQP URL"),
            ("http://u:hunter2@h", "must be an AMQP URL"),
            ("amqp://u:hunter2@", "names no host"),
            ("amqps://u:hunter2@h", "amqps:// asks for TLS"),
            ("amqp://u:p@h,amqps://u:hunter2@h", "amqps:// asks for TLS"),
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
            let says = BrokerUrls::read(text).err().unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(says.contains(said) && !says.contains("hunter2"), "{text}: {says}");
        }
    }
}
