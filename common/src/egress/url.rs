//! A receiver's URL, parsed strictly: URLs that two parsers might interpret differently are refused, so that the host that was
//! checked is the host that is connected to (D27).

use std::fmt;
use std::net::IpAddr;

/// Longest URL, in bytes.
const MAX_BYTES: usize = 2_000;
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
    text: String,
    scheme: Scheme,
    host: Host,
    port: u16,
    authority_end: usize,
}

impl ReceiverUrl {
    /// Parses a URL. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        check_characters(text)?;
        let (scheme, rest) = split_scheme(text)?;
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let (host, port) = split_port(authority)?;
        let default_port = match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        };
        let authority_end = text.len() - rest.len() + authority.len();
        let (host, port) = (read_host(host)?, port.unwrap_or(default_port));
        Ok(Self { text: text.to_owned(), scheme, host, port, authority_end })
    }

    /// The URL as written. Its query may hold a secret: [`displayable`] is for people and logs.
    pub fn as_str(&self) -> &str {
        &self.text
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

    /// Host and port as written: the value of the `Host` header.
    pub fn authority(&self) -> &str {
        let start = self.text.find("://").map_or(0, |at| at + 3);
        &self.text[start..self.authority_end]
    }

    /// The request target: path and query, never empty.
    pub fn path_and_query(&self) -> String {
        let target = &self.text[self.authority_end..];
        if target.starts_with('/') { target.to_owned() } else { format!("/{target}") }
    }
}

impl fmt::Debug for ReceiverUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&displayable(&self.text))
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
        return Err("must have at most 2000 characters");
    }
    if text.contains('#') {
        return Err("must not have a fragment (#)");
    }
    let plain = text.bytes().all(|b| b.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&b));
    let escaped = text
        .split('%')
        .skip(1)
        .all(|rest| rest.bytes().take_while(u8::is_ascii_hexdigit).take(2).count() == 2);
    if plain && escaped {
        Ok(())
    } else {
        Err("must not have white space or characters that a URL cannot have")
    }
}

fn split_scheme(text: &str) -> Result<(Scheme, &str), &'static str> {
    match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => Ok((Scheme::Https, rest)),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => Ok((Scheme::Http, rest)),
        _ => Err("must begin with https://"),
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    if authority.contains('@') {
        return Err("must not have a user name or password");
    }
    let host_end = authority.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = authority[host_end..].find(':').map(|at| host_end + at) else {
        return Ok((authority, None));
    };
    let digits = &authority[colon + 1..];
    let port = digits.parse().ok().filter(|port| *port > 0 && digits.bytes().all(|b| b.is_ascii_digit()));
    port.map(|port| (&authority[..colon], Some(port)))
        .ok_or("must have a port from 1 to 65535 after the colon")
}

fn read_host(host: &str) -> Result<Host, &'static str> {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address = inner.parse().map_err(|_| "must have an IPv6 address between the brackets")?;
        return Ok(Host::Address(IpAddr::V6(address)));
    }
    if let Ok(address) = host.parse() {
        return Ok(Host::Address(IpAddr::V4(address)));
    }
    if is_name(host) { Ok(Host::Name(host.to_ascii_lowercase())) } else { Err("must have a valid host name") }
}

/// The last label of a name must begin with a letter, because some parsers take `127.1`, `0x7f.1` or `2130706433` for
/// addresses.
fn is_name(host: &str) -> bool {
    let last_begins_with_letter =
        host.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_alphabetic()));
    host.len() <= 253 && last_begins_with_letter && host.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let plain = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    (1..=63).contains(&label.len()) && plain && !label.starts_with('-') && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (Host, u16, String, String) {
        let url = ReceiverUrl::parse(text).unwrap();
        (url.host().clone(), url.port(), url.authority().to_owned(), url.path_and_query())
    }

    fn name(text: &str) -> Host {
        Host::Name(text.to_owned())
    }

    fn address(text: &str) -> Host {
        Host::Address(text.parse().unwrap())
    }

    #[test]
    fn splits_urls_into_their_parts() {
        let all = [
            ("https://Example.com", name("example.com"), 443, "Example.com", "/"),
            ("HTTPS://a.b:8443/x/y?z=[1]&e=a@b", name("a.b"), 8443, "a.b:8443", "/x/y?z=[1]&e=a@b"),
            ("https://a.b?x=http://c", name("a.b"), 443, "a.b", "/?x=http://c"),
            ("http://localhost:9000/%2f", name("localhost"), 9000, "localhost:9000", "/%2f"),
            ("https://93.184.215.14/hook", address("93.184.215.14"), 443, "93.184.215.14", "/hook"),
            ("http://[2606:4700::1111]/", address("2606:4700::1111"), 80, "[2606:4700::1111]", "/"),
            ("https://[::ffff:10.0.0.1]:1/", address("::ffff:10.0.0.1"), 1, "[::ffff:10.0.0.1]:1", "/"),
        ];
        for (text, host, port, authority, target) in all {
            assert_eq!(parts(text), (host, port, authority.to_owned(), target.to_owned()), "{text}");
        }
    }

    #[test]
    fn values_of_a_query_are_not_shown() {
        for (url, shown) in [
            ("https://a.b/c", "https://a.b/c"),
            ("https://a.b/c?token=s3cret&x=1&s3cret&y=a=s3cret", "https://a.b/c?token=***&x=***&***&y=***"),
            ("https://a.b?s3cret", "https://a.b?***"),
            ("https://a.b/?", "https://a.b/?"),
        ] {
            assert_eq!(displayable(url), shown);
            assert_eq!(format!("{:?}", ReceiverUrl::parse(url).unwrap()), shown);
        }
    }

    #[test]
    fn ambiguous_urls_are_refused() {
        for text in [
            "",
            "example.com",
            "ftp://a.b/",
            "https:a.b",
            "https:///a.b",
            "https://",
            "https://?x",
            "https://user@a.b/",
            "https://a.b:80@c.d/",
            "https://a.b\\@c.d/",
            "https://a.b/#x",
            "https://a.b /",
            "https://a.b/\r\nX: y",
            "https://a.b/\u{e9}",
            "https://b\u{fc}cher.de/",
            "https://a%2eb/",
            "https://a.b/%2",
            "https://a.b/%zz",
            "https://a.b:/",
            "https://a.b:0/",
            "https://a.b:+1/",
            "https://a.b:65536/",
            "https://a.b:1:2/",
            "https://a.b./",
            "https://a..b/",
            "https://-a.b/",
            "https://a_b.c/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://0x7f.1/",
            "https://0177.0.0.1/",
            "https://1.2.3.4.5/",
            "https://256.1.1.1/",
            "https://[::1/",
            "https://::1/",
            "https://[::1%25eth0]/",
            "https://[127.0.0.1]/",
            "https://[::1]x/",
            "https://x[::1]/",
        ] {
            assert!(ReceiverUrl::parse(text).is_err(), "{text}");
        }
        assert!(ReceiverUrl::parse(&format!("https://a.b/{}", "x".repeat(2_000))).is_err());
    }
}
