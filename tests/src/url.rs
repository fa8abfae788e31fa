//! Rewriting the URLs of servers.

use std::net::SocketAddr;

/// The same server's database of another name.
pub(crate) fn with_database(url: &str, name: &str) -> String {
    let (start, authority, query) = parts(url);
    format!("{start}{authority}/{name}{query}")
}

/// The same user and database at another address, such as a proxy's.
pub(crate) fn with_address(url: &str, address: SocketAddr) -> String {
    let (start, authority, _) = parts(url);
    let user = authority.rsplit_once('@').map_or(String::new(), |(user, _)| format!("{user}@"));
    let rest = &url[start.len() + authority.len()..];
    format!("{start}{user}{address}{rest}")
}

pub(crate) fn user(url: &str) -> Option<&str> {
    let (_, authority, _) = parts(url);
    authority.rsplit_once('@').map(|(user, _)| user)
}

/// The same URL with another user and password.
pub(crate) fn with_user(url: &str, user: &str) -> String {
    let (start, authority, _) = parts(url);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{start}{user}@{host}{}", &url[start.len() + authority.len()..])
}

/// Host and port of a server.
pub(crate) fn address(url: &str, default_port: u16) -> String {
    let (_, authority, _) = parts(url);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if host.contains(':') { host.to_owned() } else { format!("{host}:{default_port}") }
}

/// `scheme://`, `user:password@host:port`, `?query`.
fn parts(url: &str) -> (&str, &str, &str) {
    let (start, rest) = url.split_at(url.find("://").map_or(0, |at| at + 3));
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    (start, authority, rest.find('?').map_or("", |at| &rest[at..]))
}
