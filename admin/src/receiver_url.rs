//! Checks whether the URL of a new subscription's receiver is allowed (D27).

use crate::error::RefusedAddress;
use crate::{AdminError, Result};
use common::egress::{EgressSettings, Host, Network as _, ReceiverUrl, SystemNetwork};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The URL of a receiver that was checked. Only [`check_receiver`] makes one.
#[derive(Debug)]
pub struct CheckedReceiver(ReceiverUrl);

impl CheckedReceiver {
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// Parses the URL, and checks its host and all addresses that the host resolves to. The error says why it is refused. It waits for
/// the name service for up to ten seconds, so a caller holds no connection of a pool meanwhile.
pub async fn check_receiver(text: &str, egress: &EgressSettings) -> Result<CheckedReceiver> {
    let wrong = |what: &str| AdminError::ReceiverRefused(format!("url {what}"));
    let url = if text.is_empty() { Err("must not be empty") } else { ReceiverUrl::parse(text) }.map_err(wrong)?;
    let refused = |address| egress.check_address(address).map_err(|why| RefusedAddress { address, why });
    if let Host::Address(address) = url.host() {
        refused(*address).map_err(|error| AdminError::ReceiverRefused(error.to_string()))?;
    }
    egress.check_url(&url).map_err(wrong)?;
    if let Host::Name(name) = url.host() {
        for address in resolve(name).await.map_err(AdminError::ReceiverRefused)? {
            refused(address).map_err(|source| AdminError::ReceiverNotPublic { host: name.to_string(), source })?;
        }
    }
    Ok(CheckedReceiver(url))
}

async fn resolve(name: &str) -> Result<Vec<IpAddr>, String> {
    let found = timeout(RESOLVE_TIMEOUT, SystemNetwork.resolve(name)).await;
    let found = found.unwrap_or_else(|_| Err("the name service timed out".to_owned()));
    found.map_err(|why| format!("host {name:?} does not resolve: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(allow_private: bool) -> EgressSettings {
        EgressSettings { allow_private, ports: vec![443] }
    }

    async fn refusal(allow_private: bool, url: &str) -> String {
        check_receiver(url, &settings(allow_private)).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn a_refusal_says_what_is_wrong() {
        assert_eq!(refusal(false, "https://10.0.0.1/").await, "address 10.0.0.1 is not public: private");
        assert_eq!(refusal(true, "").await, "url must not be empty");
        assert_eq!(refusal(false, "http://93.184.215.14/").await, "url must begin with https://");
        let expected = "url must have a port that CONNECT_WEBHOOK_PORTS lists";
        assert_eq!(refusal(false, "https://93.184.215.14:22/").await, expected);
        assert_eq!(refusal(false, "https://a@b.c/").await, "url must not have a user name or password");
        assert!(
            refusal(true, "https://nowhere.invalid/").await.starts_with("host \"nowhere.invalid\" does not resolve")
        );
        let local = check_receiver("https://localhost/", &settings(false)).await.unwrap_err();
        assert_eq!(local.to_string(), "host \"localhost\" is not public");
        let told = crate::describe(&local);
        assert!(
            told.starts_with("host \"localhost\" is not public: address ") && told.ends_with(": loopback"),
            "{told}"
        );
    }

    #[tokio::test]
    async fn literal_addresses_need_no_name_service() {
        assert!(check_receiver("https://93.184.215.14/hook", &settings(false)).await.is_ok());
        assert!(check_receiver("http://127.0.0.1:9000/", &settings(true)).await.is_ok());
    }
}
