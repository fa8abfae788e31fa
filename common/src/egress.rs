//! Which webhook receivers may be reached (D27): the only parser of receivers' URLs, the only check of addresses, and the only
//! connector.
//! `connectctl` and the settings area apply them when a subscription is created, the dispatcher before every attempt.
//!
//! Not covered: addresses that only the local network translates, such as a NAT64 prefix of the operator's choice.

mod address;
mod connector;
mod network;
mod response_head;
mod stream;
mod url;

pub use address::refusal;
pub use connector::{ConnectError, Connector};
pub use network::{LOOK_UP_OWNER, LOOK_UPS, Network, ResolveResult, SystemNetwork};
pub use response_head::{HEAD_BYTES_MAX, HEAD_LINES_MAX, SeenStatus};
pub use stream::NotBegun;
pub use url::{Host, ReceiverUrl, Scheme, displayable};

use crate::settings::{Environment, Section, SettingError, Variable, error};
use crate::variables;
use std::net::IpAddr;

/// Which receivers are allowed.
#[derive(Clone, Debug, Default)]
pub struct EgressSettings {
    /// Development only: also allows `http://`, loopback addresses and any port.
    pub allow_private: bool,
    /// Ports that may be connected to, so that other services of a public address, such as mail or SSH, are not reachable.
    pub ports: Vec<u16>,
}

/// Maximum number of ports in the setting.
const PORTS_MAX: usize = 64;

impl Section for EgressSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_WEBHOOK_PORTS" => "443,8443", "ports that webhook receivers may listen on, separated by commas";
        "CONNECT_WEBHOOK_ALLOW_PRIVATE" => "false", "development only: webhook receivers may also be http://, on loopback addresses and on any port";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        const PORTS: &str = "CONNECT_WEBHOOK_PORTS";
        let listed: String = env.get::<Self, _>(PORTS)?;
        let read = |port: &str| port.trim().parse::<u16>().ok().filter(|port| *port > 0);
        let ports: Option<Vec<u16>> = listed.split(',').map(read).collect();
        let ports = ports
            .filter(|ports| ports.len() <= PORTS_MAX)
            .ok_or_else(|| error(PORTS, "must be ports from 1 to 65535, separated by commas, 64 at most"))?;
        Ok(Self { allow_private: env.get::<Self, _>("CONNECT_WEBHOOK_ALLOW_PRIVATE")?, ports })
    }
}

impl EgressSettings {
    /// Logs a warning if receivers may be on loopback addresses, at each start of a program that uses the settings.
    pub fn warn_if_private(&self) {
        if self.allow_private {
            tracing::warn!("CONNECT_WEBHOOK_ALLOW_PRIVATE is set: receivers may be http:// and on loopback addresses");
        }
    }

    /// Checks the URL as far as possible without resolving its host. The error says what is wrong with it.
    pub fn check_url(&self, url: &ReceiverUrl) -> Result<(), &'static str> {
        if url.scheme() == Scheme::Http && !self.allow_private {
            return Err("must begin with https://");
        }
        if !self.allow_private && !self.ports.contains(&url.port()) {
            return Err("must have a port that CONNECT_WEBHOOK_PORTS lists");
        }
        match url.host() {
            Host::Address(address) => self.check_address(*address),
            Host::Name(_) => Ok(()),
        }
    }

    /// Checks an address. The error says why it is refused.
    pub fn check_address(&self, address: IpAddr) -> Result<(), &'static str> {
        match refusal(address) {
            Some(_) if self.allow_private && address.to_canonical().is_loopback() => Ok(()),
            Some(why) => Err(why),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(allow_private: bool) -> EgressSettings {
        EgressSettings { allow_private, ports: vec![443, 8443] }
    }

    fn judged(allow_private: bool, url: &str) -> Result<(), &'static str> {
        settings(allow_private).check_url(&ReceiverUrl::parse(url).unwrap())
    }

    #[test]
    fn receivers_listen_on_the_ports_of_the_setting() {
        const REFUSED: &str = "must have a port that CONNECT_WEBHOOK_PORTS lists";
        assert_eq!(judged(false, "https://example.com:8443/hook"), Ok(()));
        assert_eq!(judged(false, "https://example.com:9443/hook"), Err(REFUSED));
        assert_eq!(judged(true, "https://example.com:9443/hook"), Ok(()));
        let more =
            EgressSettings::from_env(&Environment::from_pairs(&[("CONNECT_WEBHOOK_PORTS", "443, 9443")])).unwrap();
        assert_eq!(more.ports, [443, 9443]);
        assert_eq!(EgressSettings::from_env(&Environment::from_pairs(&[])).unwrap().ports, [443, 8443]);
        for wrong in ["0", "443,", "https", "65536", "443;8443"] {
            assert!(
                EgressSettings::from_env(&Environment::from_pairs(&[("CONNECT_WEBHOOK_PORTS", wrong)])).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn allow_private_adds_only_http_and_loopback() {
        for fine in
            ["http://127.0.0.1:9000/", "https://[::1]:9000/", "http://[::ffff:127.9.9.9]/", "http://93.184.215.14"]
        {
            assert_eq!(judged(true, fine), Ok(()), "{fine}");
        }
        for refused in
            ["http://10.0.0.1", "http://169.254.169.254/latest", "https://[fd00:ec2::254]/", "http://0.0.0.0"]
        {
            assert!(judged(true, refused).is_err(), "{refused}");
        }
    }
}
