//! Vets the receiver of a new subscription (D27).

use anyhow::{Context as _, anyhow, bail};
use common::egress::{EgressSettings, Host, ReceiverUrl};
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::lookup_host;

const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the URL and judges the host and every address it has. The error says why it is refused.
pub(crate) async fn vet(text: &str, egress: &EgressSettings) -> anyhow::Result<ReceiverUrl> {
    let url = ReceiverUrl::parse(text).map_err(|what| anyhow!("url {what}"))?;
    if let Host::Address(address) = url.host() {
        judge(egress, *address)?;
    }
    egress.check_url(&url).map_err(|what| anyhow!("url {what}"))?;
    if let Host::Name(name) = url.host() {
        for address in resolve(name, url.port()).await? {
            judge(egress, address).with_context(|| format!("host {name:?}"))?;
        }
    }
    Ok(url)
}

fn judge(egress: &EgressSettings, address: IpAddr) -> anyhow::Result<()> {
    egress.check_address(address).map_err(|why| anyhow!("address {address} is not public: {why}"))
}

async fn resolve(name: &str, port: u16) -> anyhow::Result<Vec<IpAddr>> {
    let looked_up = tokio::time::timeout(RESOLVE_TIMEOUT, lookup_host((name, port))).await;
    let found = looked_up.map_err(|_| anyhow!("host {name:?} doesn't resolve: no answer in time"))?;
    let addresses: Vec<_> =
        found.with_context(|| format!("host {name:?} doesn't resolve"))?.map(|at| at.ip()).collect();
    if addresses.is_empty() {
        bail!("host {name:?} doesn't resolve: it has no address");
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::describe;

    fn settings(allow_private: bool) -> EgressSettings {
        EgressSettings { allow_private, ports: vec![443] }
    }

    async fn refusal(allow_private: bool, url: &str) -> String {
        describe(&vet(url, &settings(allow_private)).await.unwrap_err())
    }

    #[tokio::test]
    async fn a_refusal_says_what_is_wrong() {
        assert_eq!(refusal(false, "https://10.0.0.1/").await, "address 10.0.0.1 is not public: private");
        assert_eq!(refusal(false, "http://93.184.215.14/").await, "url must begin with https://");
        assert_eq!(
            refusal(false, "https://93.184.215.14:22/").await,
            "url must have a port that CONNECT_WEBHOOK_PORTS lists"
        );
        assert_eq!(refusal(false, "https://a@b.c/").await, "url must not have a user name or password");
        assert!(
            refusal(true, "https://nowhere.invalid/")
                .await
                .starts_with("host \"nowhere.invalid\" doesn't resolve")
        );
        let local = refusal(false, "https://localhost/").await;
        assert!(
            local.starts_with("host \"localhost\": address ") && local.ends_with(" is not public: loopback"),
            "{local}"
        );
    }

    #[tokio::test]
    async fn literals_need_no_name_service() {
        assert!(vet("https://93.184.215.14/hook", &settings(false)).await.is_ok());
        assert!(vet("http://127.0.0.1:9000/", &settings(true)).await.is_ok());
    }
}
