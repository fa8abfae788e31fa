//! Which webhook receivers may be reached (D27): the one reading of a receiver's URL and the one judgement of an
//! address. `connectctl` asks when a subscription is made, the dispatcher asks before every attempt.
//!
//! What can't be known here: addresses that only this network's own translators give a meaning, such as a NAT64
//! prefix of the operator's choice.

mod address;
mod url;

pub use address::{is_globally_reachable, refusal};
pub use url::{Host, ReceiverUrl, Scheme};

use crate::settings::{Environment, Section, SettingError, Variable};
use std::net::IpAddr;

/// What a receiver may be.
#[derive(Clone, Copy, Debug, Default)]
pub struct EgressSettings {
    /// Development only: `http://` and loopback addresses are fine as well.
    pub allow_private: bool,
}

impl Section for EgressSettings {
    const VARIABLES: &'static [Variable] = &[Variable {
        name: "CONNECT_WEBHOOK_ALLOW_PRIVATE",
        default: Some("false"),
        help: "development only: webhook receivers may also be http:// and on loopback addresses",
    }];

    fn read(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self { allow_private: env.get::<Self, _>("CONNECT_WEBHOOK_ALLOW_PRIVATE")? })
    }
}

impl EgressSettings {
    /// Judges the URL as far as it can be without resolving a name. The error says what is wrong with it.
    pub fn check_url(&self, url: &ReceiverUrl) -> Result<(), &'static str> {
        if url.scheme() == Scheme::Http && !self.allow_private {
            return Err("must begin with https://");
        }
        match url.host() {
            Host::Address(address) => self.check_address(*address),
            Host::Name(_) => Ok(()),
        }
    }

    /// Judges an address. The error says why it is refused.
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
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Vectors {
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Case {
        why: String,
        url: Option<String>,
        #[serde(default)]
        resolves_to: Vec<IpAddr>,
        address: Option<IpAddr>,
        expect: String,
    }

    fn verdict(case: &Case) -> Result<(), &'static str> {
        let public = EgressSettings { allow_private: false };
        if let Some(url) = &case.url {
            public.check_url(&ReceiverUrl::parse(url)?)?;
        }
        case.address.iter().chain(&case.resolves_to).try_for_each(|address| public.check_address(*address))
    }

    #[test]
    fn every_vector_is_judged_as_it_says() {
        let vectors: Vectors = serde_json::from_str(include_str!("../../tests/vectors/ssrf.json")).unwrap();
        for case in &vectors.cases {
            let verdict = verdict(case);
            let expected = if verdict.is_ok() { "allowed" } else { "refused" };
            assert_eq!(
                case.expect, expected,
                "{} ({:?} {:?}): {verdict:?}",
                case.why, case.url, case.address
            );
        }
        assert!(vectors.cases.len() >= 60);
    }

    fn judged(allow_private: bool, url: &str) -> Result<(), &'static str> {
        EgressSettings { allow_private }.check_url(&ReceiverUrl::parse(url).unwrap())
    }

    #[test]
    fn receivers_are_public_and_https() {
        assert_eq!(judged(false, "https://93.184.215.14/hook"), Ok(()));
        assert_eq!(judged(false, "https://example.com/hook"), Ok(()));
        assert_eq!(judged(false, "http://93.184.215.14/hook"), Err("must begin with https://"));
        for refused in
            ["https://127.0.0.1", "https://[::1]", "https://10.0.0.1", "https://[::ffff:127.0.0.1]"]
        {
            assert!(judged(false, refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn development_adds_http_and_loopback_and_nothing_else() {
        for fine in [
            "http://127.0.0.1:9000/",
            "https://[::1]:9000/",
            "http://[::ffff:127.9.9.9]/",
            "http://93.184.215.14",
        ] {
            assert_eq!(judged(true, fine), Ok(()), "{fine}");
        }
        for refused in
            ["http://10.0.0.1", "http://169.254.169.254/latest", "https://[fd00:ec2::254]/", "http://0.0.0.0"]
        {
            assert!(judged(true, refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn the_exception_is_off_unless_set() {
        assert!(!EgressSettings::read(&Environment::of(&[])).unwrap().allow_private);
        let set = Environment::of(&[("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")]);
        assert!(EgressSettings::read(&set).unwrap().allow_private);
    }
}
