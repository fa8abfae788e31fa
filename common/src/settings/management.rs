//! The management interface of RabbitMQ, which only the checks of an installation use.

use super::{Environment, Section, SettingError, SettingValue, Variable, is_loopback};
use crate::sealed::Secret;
use hyper::Uri;
use percent_encoding::percent_decode_str;
use std::path::PathBuf;

const URL: &str = "CONNECT_BROKER_MANAGEMENT_URL";
const CA_FILE: &str = "CONNECT_BROKER_MANAGEMENT_CA_FILE";

const FORM: &str =
    "must be a URL such as https://user:password@host:15671; http:// is allowed for loopback hosts only";

/// Where the management interface is, and who asks it.
#[derive(Clone, Debug)]
pub struct ManagementSettings {
    /// Base URL of the management interface, with its credentials.
    pub url: ManagementUrl,
    /// Root certificates that are trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
}

/// The management interface; `None` if it is not set.
#[derive(Clone, Debug)]
pub struct OptionalManagementSettings(pub Option<ManagementSettings>);

/// The URL of the management interface: with TLS or on loopback, with a user and a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementUrl {
    /// Scheme, host, port and path, without a slash at the end.
    pub base: String,
    /// The user's name.
    pub user: String,
    /// The user's password.
    pub password: Secret,
}

impl SettingValue for ManagementUrl {
    fn parse_setting(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| {
            format!("{FORM}; percent-encode '@', ':', '/', '?' and '#' within user name and password")
        })
    }
}

fn parse(text: &str) -> Option<ManagementUrl> {
    if text.contains(['?', '#']) {
        return None;
    }
    let url: Uri = text.parse().ok()?;
    let (scheme, authority) = (url.scheme_str()?, url.authority()?);
    let is_allowed = scheme == "https" || (scheme == "http" && is_loopback(authority.host()));
    let (login, server) = authority.as_str().rsplit_once('@')?;
    let (user, password) = login.split_once(':')?;
    if !is_allowed || authority.host().is_empty() || user.is_empty() || password.contains([':', '@']) {
        return None;
    }
    let decode = |text| Some(percent_decode_str(text).decode_utf8().ok()?.into_owned());
    Some(ManagementUrl {
        base: format!("{scheme}://{server}{}", url.path().trim_end_matches('/')),
        user: decode(user)?,
        password: Secret::new(decode(password)?),
    })
}

impl Section for OptionalManagementSettings {
    const VARIABLES: &'static [Variable] = &[
        Variable {
            name: URL,
            default: Some(""),
            help: "management interface of RabbitMQ, such as https://user:password@host:15671; http:// is allowed for loopback hosts only",
        },
        Variable {
            name: CA_FILE,
            default: Some(""),
            help: "file of root certificates (PEM) for the management interface, in addition to the system's",
        },
    ];

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let ca_file = env.optional::<Self, String>(CA_FILE)?.map(PathBuf::from);
        let url = env.optional::<Self, ManagementUrl>(URL)?;
        Ok(Self(url.map(|url| ManagementSettings { url, ca_file })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_user_and_tls_or_is_on_this_machine() {
        for (text, base, user, password) in [
            ("https://ada:pw@mq.example", "https://mq.example", "ada", "pw"),
            ("https://ada:p%40%3A@mq.example:15671/rabbit/", "https://mq.example:15671/rabbit", "ada", "p@:"),
            ("http://ada:@127.0.0.1:15672/", "http://127.0.0.1:15672", "ada", ""),
            ("http://a:b@[::1]:15672", "http://[::1]:15672", "a", "b"),
            ("http://a:b@localhost:15672", "http://localhost:15672", "a", "b"),
        ] {
            let url = ManagementUrl::parse_setting(text).unwrap();
            assert_eq!((url.base.as_str(), url.user.as_str(), url.password.reveal()), (base, user, password));
        }
        for wrong in [
            "hunter2",
            "http://ada:hunter2@mq.example:15672",
            "http://ada:hunter2@127.0.0.1.example:15672",
            "https://mq.example",
            "https://hunter2@mq.example",
            "https://:hunter2@mq.example",
            "https://ada:hunter2:x@mq.example",
            "https://ada:hunter2@x@mq.example",
            "https://ada:hunter2@mq.example/?a",
            "https://ada:hunter2@mq.example/#a",
            "https://ada:hunter2@",
            "ftp://ada:hunter2@localhost",
        ] {
            let says = ManagementUrl::parse_setting(wrong).expect_err(wrong);
            assert!(says.contains("must be a URL such as") && !says.contains("hunter2"), "{wrong}: {says}");
        }
    }

    #[test]
    fn the_management_interface_is_optional_and_its_password_is_not_printed() {
        let read = |pairs: &[(&str, &str)]| {
            OptionalManagementSettings::from_env(&Environment::from_pairs(pairs)).unwrap().0
        };
        assert!(read(&[(CA_FILE, "/ca.pem")]).is_none());
        let settings = read(&[(URL, "https://ada:hunter2@mq.example"), (CA_FILE, "/ca.pem")]).unwrap();
        assert_eq!(settings.ca_file, Some(PathBuf::from("/ca.pem")));
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
