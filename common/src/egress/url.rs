//! A receiver's URL, read as browsers read it (WHATWG, D42) and kept in its canonical form, so that the host that was checked is
//! the host that is connected to (D27). What people write by mistake, or to deceive a reader, is refused.

use crate::model::text::{composed, is_invisible};
use idna::domain_to_unicode;
use std::fmt;
use std::net::IpAddr;
use url::{Position, Url};

/// Longest URL, in bytes.
const MAX_BYTES: usize = 2_000;
const HOST: &str = "must have a valid host name";
const PORT: &str = "must have a port from 1 to 65535 after the colon";
const SCHEME: &str = "must begin with https://";
const TOO_LONG: &str = "must have at most 2000 characters";
/// Replaces a value that is not shown.
const HIDDEN: &str = "***";

/// The scheme of a receiver's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without encryption: development only.
    Http,
    /// With TLS.
    Https,
}

/// The host of a receiver's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name to resolve, lower case.
    Name(String),
    /// An address, written in the URL.
    Address(IpAddr),
}

/// A webhook receiver's URL: scheme, host, port, path and query; neither user nor fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct ReceiverUrl {
    url: Url,
    scheme: Scheme,
    host: Host,
    port: u16,
}

impl ReceiverUrl {
    /// Parses a URL. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        check_characters(text)?;
        let (scheme, rest) = text.split_once("://").ok_or(SCHEME)?;
        let (scheme, default_port) = match scheme.to_ascii_lowercase().as_str() {
            "https" => (Scheme::Https, 443),
            "http" => (Scheme::Http, 80),
            _ => return Err(SCHEME),
        };
        check_authority(rest.split(['/', '?']).next().unwrap_or_default())?;
        let url = Url::parse(text).map_err(|error| if error == url::ParseError::InvalidPort { PORT } else { HOST })?;
        if url.as_str().len() > MAX_BYTES {
            return Err(TOO_LONG);
        }
        let host = match url.host() {
            Some(url::Host::Domain(name)) if is_name(name) => Host::Name(name.to_owned()),
            // In other notations, such as 0177.0.0.1, it is another address to some readers.
            Some(url::Host::Ipv4(address)) if rest.starts_with(&address.to_string()) => {
                Host::Address(IpAddr::V4(address))
            }
            Some(url::Host::Ipv6(address)) => Host::Address(IpAddr::V6(address)),
            Some(url::Host::Domain(_) | url::Host::Ipv4(_)) | None => return Err(HOST),
        };
        let port = url.port().unwrap_or(default_port);
        if port == 0 {
            return Err(PORT);
        }
        Ok(Self { url, scheme, host, port })
    }

    /// The URL in its canonical form. Its query may hold a secret: [`displayable`] is for people and logs.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Whether the receiver is reached with TLS.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host, a name or an address.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The port, explicit or the scheme's default.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Host and port, which is left out where it is the scheme's default: the value of the `Host` header.
    pub fn authority(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPort]
    }
}

impl fmt::Debug for ReceiverUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&displayable(self.as_str()))
    }
}

/// A URL without the values of its query, any of which may be a token.
pub fn displayable(url: &str) -> String {
    let Some((place, query)) = url.split_once('?') else { return url.to_owned() };
    let hidden = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={HIDDEN}"),
        None if pair.is_empty() => String::new(),
        None => HIDDEN.to_owned(),
    };
    format!("{place}?{}", query.split('&').map(hidden).collect::<Vec<_>>().join("&"))
}

fn check_characters(text: &str) -> Result<(), &'static str> {
    if text.len() > MAX_BYTES {
        return Err(TOO_LONG);
    }
    if text.contains('#') {
        return Err("must not have a fragment (#)");
    }
    // Browsers leave out line ends, take a backslash for a slash, and encode blanks: nobody means that in a receiver's URL.
    if text.contains(|c: char| c.is_whitespace() || c == '\\' || is_invisible(c)) {
        return Err("must not have white space, backslashes or invisible characters");
    }
    Ok(())
}

/// Checks host and port as they are written. A host may be international, but not in letters that stand for others, such as
/// `ⓛocalhost`.
fn check_authority(authority: &str) -> Result<(), &'static str> {
    if authority.contains('@') {
        return Err("must not have a user name or password");
    }
    if authority.ends_with(':') {
        return Err(PORT);
    }
    // The full stops of other scripts separate labels as well.
    let written = |host: &str| composed(&host.to_lowercase()).replace(['。', '．', '｡'], ".");
    let is_plain = |host: &str| match url::Host::parse(host) {
        Ok(url::Host::Domain(ascii)) => domain_to_unicode(&ascii).0 == written(host),
        Ok(url::Host::Ipv4(_) | url::Host::Ipv6(_)) | Err(_) => false,
    };
    let host = authority.split(':').next().unwrap_or_default();
    let is_host = !authority.contains('%') && (authority.is_ascii() || is_plain(host));
    if authority.is_empty() || !is_host { Err(HOST) } else { Ok(()) }
}

/// Whether a name can be resolved: its labels have 1 to 63 bytes and no hyphen at an end.
fn is_name(host: &str) -> bool {
    let is_label = |label: &str| (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-');
    host.len() <= 253 && host.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Host {
        Host::Name(text.to_owned())
    }

    fn address(text: &str) -> Host {
        Host::Address(text.parse().unwrap())
    }

    #[test]
    fn urls_are_read_as_browsers_read_them() {
        let long = "https://a.b:8443/x/y?z=[1]&e=a@b";
        for (text, host, port, canonical) in [
            ("https://Example.com", name("example.com"), 443, "https://example.com/"),
            ("HTTPS://a.b:8443/x/y?z=[1]&e=a@b", name("a.b"), 8443, long),
            ("https://a.b:443?x=http://c", name("a.b"), 443, "https://a.b/?x=http://c"),
            ("http://localhost:9000/%2f", name("localhost"), 9000, "http://localhost:9000/%2f"),
            ("https://my_hooks.a.b/", name("my_hooks.a.b"), 443, "https://my_hooks.a.b/"),
            ("https://x_bu\u{308}.a/", name("xn--x_b-joa.a"), 443, "https://xn--x_b-joa.a/"),
            ("https://B\u{fc}cher.example", name("xn--bcher-kva.example"), 443, "https://xn--bcher-kva.example/"),
            ("https://例え。jp/", name("xn--r8jz45g.jp"), 443, "https://xn--r8jz45g.jp/"),
            ("https://a.b/\u{e9}?\u{e9}={x}", name("a.b"), 443, "https://a.b/%C3%A9?%C3%A9={x}"),
            ("https://93.184.215.14/hook", address("93.184.215.14"), 443, "https://93.184.215.14/hook"),
            ("http://[2606:4700::1111]/", address("2606:4700::1111"), 80, "http://[2606:4700::1111]/"),
        ] {
            for text in [text, canonical] {
                let url = ReceiverUrl::parse(text).unwrap_or_else(|what| panic!("{text}: {what}"));
                assert_eq!((url.host(), url.port(), url.as_str()), (&host, port, canonical), "{text}");
                assert_eq!(Some(url.authority()), canonical.split('/').nth(2), "{text}");
            }
        }
    }

    #[test]
    fn values_of_a_query_are_not_shown() {
        for (url, shown) in [
            ("https://a.b/c", "https://a.b/c"),
            ("https://a.b/c?token=s3cret&x=1&s3cret&y=a=s3cret", "https://a.b/c?token=***&x=***&***&y=***"),
            ("https://a.b/?s3cret", "https://a.b/?***"),
            ("https://a.b/?", "https://a.b/?"),
        ] {
            assert_eq!(displayable(url), shown);
            assert_eq!(format!("{:?}", ReceiverUrl::parse(url).unwrap()), shown);
        }
    }

    #[test]
    fn urls_that_nobody_means_are_refused() {
        let long = format!("https://a.b/{}", "x".repeat(2_000));
        for (why, urls) in [
            ("no scheme of ours", &["", "example.com", "ftp://a.b/", "https:a.b", " https://a.b/"][..]),
            ("no host", &["https:///a.b", "https://", "https://?x"]),
            ("credentials", &["https://user@a.b/", "https://a.b:80@c.d/", "https://@a.b/", "https://a.b\\@c.d/"]),
            ("a fragment, a blank or a line", &["https://a.b/#x", "https://a.b /", "https://a.b/\r\nX: y"]),
            (
                "no port",
                &["https://a.b:0/", "https://a.b:+1/", "https://a.b:65536/", "https://a.b:1:2/", "https://a.b:/"],
            ),
            ("no name", &["https://a.b./", "https://a..b/", "https://-a.b/", "https://xn--a/", "https://a.b\u{200b}/"]),
            ("a name in disguise", &["https://\u{24db}ocalhost/", "https://\u{ff11}27.0.0.1/", "https://a%2eb/"]),
            ("escapes in a name", &["https://a%00b/", "https://a%5cb/"]),
            ("another form of an address", &["https://127.1/", "https://2130706433/", "https://0x7f.1/"]),
            ("octal", &["https://0177.0.0.1/", "https://00000127.0.0.1/", "https://127.0.0.01/"]),
            ("no address", &["https://1.2.3.4.5/", "https://256.1.1.1/", "https://[127.0.0.1]/"]),
            (
                "brackets",
                &["https://[::1/", "https://::1/", "https://[::1%25eth0]/", "https://[::1]x/", "https://x[::1]/"],
            ),
            ("too long", &[&long]),
        ] {
            for text in urls {
                assert!(ReceiverUrl::parse(text).is_err(), "{why}: {text}");
            }
        }
    }
}
