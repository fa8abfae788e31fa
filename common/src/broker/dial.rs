//! Connecting to one of several brokers.

use super::topology::is_refused;
use super::transport::connect;
use crate::settings::{BROKER_TLS_NAMES, BrokerSettings, BrokerUrl};
use crate::tls::{OptionNames, TlsFailure, explain_io};
use lapin::{Connection, ConnectionProperties, ErrorKind};
use std::io;
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

/// Maximum time that connecting and declaring the queues may take, unless the URLs' `connection_timeout` takes longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The part of it for connecting alone, shared by all brokers; a URL's `connection_timeout` replaces its broker's share.
const DIAL_TIMEOUT: Duration = Duration::from_secs(8);
/// AMQP heartbeat interval in seconds: a connection without traffic for that long counts as lost.
const HEARTBEAT_SECONDS: u16 = 10;

/// Why there is no connection. The text names each broker that was tried.
#[derive(Debug, Error)]
pub(super) enum DialError {
    /// TLS is not possible.
    #[error(transparent)]
    Tls(TlsFailure),
    /// No broker can be used.
    #[error("{0}")]
    Refused(String),
    /// The same, and each broker has refused the user.
    #[error("{0}")]
    Denied(String),
    /// The queues cannot be declared.
    #[error("declaring the queues failed: {}", describe(.0))]
    Declare(#[from] lapin::Error),
}

impl DialError {
    /// Whether the broker lets the user in, or do something, only after an operator's change.
    pub(super) fn is_denied(&self) -> bool {
        match self {
            Self::Denied(_) => true,
            Self::Declare(error) => is_refused(error),
            Self::Tls(_) | Self::Refused(_) => false,
        }
    }
}

/// How long the broker of that URL may take to respond: what the URL says, or its share of the time.
fn dial_timeout(settings: &BrokerSettings, url: &BrokerUrl) -> Duration {
    let share = DIAL_TIMEOUT / u32::try_from(settings.urls.count()).unwrap_or(u32::MAX);
    url.uri.query.connection_timeout.map_or(share, Duration::from_millis)
}

/// Maximum time that connecting and declaring the queues takes.
pub(super) fn longest_connect(settings: &BrokerSettings) -> Duration {
    let dialling = settings.urls.in_order().map(|(_, url)| dial_timeout(settings, &url));
    let dialling = dialling.fold(Duration::ZERO, Duration::saturating_add);
    CONNECT_TIMEOUT.max(dialling.saturating_add(CONNECT_TIMEOUT - DIAL_TIMEOUT))
}

/// Connects to the first broker that responds, and returns its place as well; declares nothing.
pub(super) async fn dial(settings: &BrokerSettings, program: &str) -> Result<(Connection, usize), DialError> {
    let mut failures = Vec::new();
    for (place, url) in settings.urls.in_order() {
        let (within, address) = (dial_timeout(settings, &url), url.address());
        match timeout(within, dial_one(url, program)).await {
            Ok(Ok(connection)) => {
                settings.urls.prefer(place);
                return Ok((connection, place));
            }
            Ok(Err(error)) => failures.push(error),
            Err(_) => failures.push(DialError::Refused(format!("{address}: no response in time"))),
        }
    }
    let text = failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Err(if failures.iter().all(DialError::is_denied) { DialError::Denied(text) } else { DialError::Refused(text) })
}

async fn dial_one(mut url: BrokerUrl, program: &str) -> Result<Connection, DialError> {
    url.uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
    let properties = ConnectionProperties::default().with_connection_name(program.into());
    let address = url.address();
    let connected = connect(url.uri, url.tls.as_ref(), &address, properties).await?;
    connected.map_err(|error| {
        let said = if url.tls.is_some() { describe_with_tls(&error) } else { describe_without_tls(&error) };
        let text = format!("{address}: {said}");
        if is_refused(&error) { DialError::Denied(text) } else { DialError::Refused(text) }
    })
}

/// What a broker does that was not spoken to as it expects: it closes the connection.
const CLOSED: [io::ErrorKind; 3] =
    [io::ErrorKind::ConnectionReset, io::ErrorKind::ConnectionAborted, io::ErrorKind::UnexpectedEof];

/// The text of an error of the broker, which names what the user may not do.
pub(super) fn describe(error: &lapin::Error) -> String {
    let ErrorKind::ProtocolError(refusal) = error.kind() else { return error.to_string() };
    let message = refusal.get_message();
    if !is_refused(error) {
        return error.to_string();
    }
    if message.as_str().contains("Login was refused") {
        return format!("RabbitMQ does not accept the user name or password of AMQP_URL ({message})");
    }
    format!("the RabbitMQ user lacks a permission ({message}); `connectctl roles` prints those of each program")
}

/// The text of an error of a connection without TLS.
fn describe_without_tls(error: &lapin::Error) -> String {
    let is_unexpected = matches!(error.kind(), ErrorKind::ParsingError(_))
        || matches!(error.kind(), ErrorKind::IOError(io) if CLOSED.contains(&io.kind()));
    let said = describe(error);
    if is_unexpected { format!("{said}; if the broker expects TLS on this port, use amqps://") } else { said }
}

/// The text of an error after the handshake. With TLS 1.3 a broker judges the client's certificate only then, and what it
/// says may be lost when it closes the connection.
fn describe_with_tls(error: &lapin::Error) -> String {
    let ErrorKind::IOError(io) = error.kind() else { return describe(error) };
    if let Some(what) = explain_io(io, &BROKER_TLS_NAMES) {
        return what;
    }
    if CLOSED.contains(&io.kind()) {
        let OptionNames { certificate, key, .. } = BROKER_TLS_NAMES;
        return format!(
            "the broker closed the connection after the handshake; check the client certificate ({certificate} and {key}) that it requires"
        );
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{BrokerUrls, RetentionPeriod, SettingValue as _};
    use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPSoftError};

    /// How long each broker may take to respond, and how long all may take together, in milliseconds.
    fn timeouts(urls: &str) -> (Vec<u128>, u128) {
        let urls = BrokerUrls::parse_setting(urls).unwrap();
        let settings = BrokerSettings {
            urls,
            prefix: "p".to_owned(),
            max_length: 1,
            max_bytes: 1,
            dead_letters: RetentionPeriod::OFF,
        };
        let each = settings.urls.in_order().map(|(_, url)| dial_timeout(&settings, &url).as_millis());
        (each.collect(), longest_connect(&settings).as_millis())
    }

    #[test]
    fn a_refusal_says_what_the_user_lacks() {
        let refused = |message: &str| {
            let soft = AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED);
            let error: lapin::Error = ErrorKind::ProtocolError(AMQPError::new(soft, message.into())).into();
            assert!(DialError::Declare(error.clone()).is_denied());
            describe(&error)
        };
        let said = refused("ACCESS_REFUSED - configure access to queue 'p.events' refused for user 'u'");
        assert!(said.starts_with("the RabbitMQ user lacks a permission (ACCESS_REFUSED - configure"), "{said}");
        let said = refused("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN.");
        assert!(said.starts_with("RabbitMQ does not accept the user name or password"), "{said}");
    }

    #[test]
    fn connection_timeout_in_the_url_replaces_the_brokers_share() {
        assert_eq!(timeouts("amqp://a,amqp://b"), (vec![4_000, 4_000], 10_000));
        let mixed = "amqp://a?connection_timeout=20000,amqp://b?connection_timeout=50,amqp://c,amqp://d";
        assert_eq!(timeouts(mixed), (vec![20_000, 50, 2_000, 2_000], 26_050));
    }
}
