//! Connecting to one of several servers. Each has an equal share of the time, within which the session must be established: a
//! server that accepts the connection and does not respond counts as unavailable. The server that worked last is tried first. A
//! connection pooler that refuses the session's options is connected to without them.

use super::error::describe;
use super::tls::{PostgresStream, PostgresTls};
use crate::health;
use crate::settings::{DatabaseUrl, places_from};
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, SslNegotiation};
use tokio_postgres::{Client, Config, Connection, Socket};

/// The driver of a connection: a future that must be polled for its client to make progress.
pub type DriverConnection = Connection<Socket, PostgresStream>;

/// TCP keepalive and user timeout: an unreachable server is detected within seconds, unless the URL sets other values.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(2);
const USER_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// No server established the session in time, and none refused it.
    #[error("no server accepted the session in time")]
    TimedOut,
    /// The driver's error for the last server that responded.
    #[error("{earlier}{server}: {}", describe(error))]
    Driver {
        /// The errors of the servers and addresses before, each with "; " at its end.
        earlier: String,
        /// Its host and port.
        server: String,
        /// The error, of which TLS may be the cause.
        error: tokio_postgres::Error,
    },
}

/// The errors of several servers or addresses; `None` while all of them timed out.
#[derive(Default)]
struct Failures(Option<ConnectError>);

impl Failures {
    fn into_error(self) -> ConnectError {
        self.0.unwrap_or(ConnectError::TimedOut)
    }

    fn add(&mut self, failure: ConnectError) {
        let ConnectError::Driver { mut earlier, server, error } = failure else { return };
        if let Some(before) = &self.0 {
            let text = before.to_string();
            // Addresses of one name often fail alike.
            if text != format!("{server}: {}", describe(&error)) {
                earlier.insert_str(0, &format!("{text}; "));
            }
        }
        self.0 = Some(ConnectError::Driver { earlier, server, error });
    }
}

/// Connects to one of the servers of `url`, with the options of `config`, which was derived from it. `within` is shared by
/// all servers, unless the URL sets a `connect_timeout` for each.
pub async fn connect(
    url: &DatabaseUrl, config: &Config, within: Duration,
) -> Result<(Client, DriverConnection), ConnectError> {
    let share = share(url, within);
    let first = match config.get_load_balance_hosts() {
        LoadBalanceHosts::Random => rand::random_range(0..url.servers()),
        LoadBalanceHosts::Disable | _ => url.preferred(),
    };
    let mut failures = Failures::default();
    for server_index in places_from(first, url.servers()) {
        // If the caller times out first, dropping the attempt makes the next one begin with the next server.
        health::beat();
        let attempt = ConnectAttempt { url, server_index, is_established: false };
        match timeout(share, connect_with_accepted_options(url, config, server_index, share)).await {
            Ok(Ok(connected)) => {
                attempt.established();
                return Ok(connected);
            }
            Ok(Err(error)) => failures.add(error),
            Err(_) => {}
        }
    }
    Err(failures.into_error())
}

/// The longest that [`connect`] takes.
pub(super) fn longest_connect(url: &DatabaseUrl, within: Duration) -> Duration {
    share(url, within).saturating_mul(count(url))
}

fn share(url: &DatabaseUrl, within: Duration) -> Duration {
    url.config().get_connect_timeout().copied().unwrap_or(within / count(url))
}

fn count(url: &DatabaseUrl) -> u32 {
    u32::try_from(url.servers()).unwrap_or(u32::MAX)
}

/// A connection attempt to one server. When it is dropped before a session was established, the server is avoided.
struct ConnectAttempt<'a> {
    url: &'a DatabaseUrl,
    server_index: usize,
    is_established: bool,
}

impl ConnectAttempt<'_> {
    fn established(mut self) {
        self.is_established = true;
        self.url.prefer(self.server_index);
    }
}

impl Drop for ConnectAttempt<'_> {
    fn drop(&mut self) {
        if !self.is_established {
            self.url.avoid(self.server_index);
        }
    }
}

/// Connects to one server; without the options of the session if the server, which is a pooler then, refuses them.
async fn connect_with_accepted_options(
    url: &DatabaseUrl, config: &Config, server_index: usize, within: Duration,
) -> Result<(Client, DriverConnection), ConnectError> {
    let with_options = url.accepts_options();
    // Boxed: an attempt's state is large, and every task that may connect would hold it.
    let connected = Box::pin(connect_to(url, config, (server_index, with_options), within)).await;
    // Options of the URL are the operator's: without them the session would not be the one that was asked for.
    let is_refused = |failure: &ConnectError| {
        matches!(failure, ConnectError::Driver { error, .. } if refuses_options(error))
            && with_options
            && url.config().get_options().is_none()
    };
    if !connected.as_ref().is_err_and(is_refused) {
        return connected;
    }
    if url.omit_options() {
        tracing::warn!("a connection pooler refuses the session's options; its role must have these settings");
    }
    Box::pin(connect_to(url, config, (server_index, false), within)).await
}

/// PgBouncer's error for a startup parameter that it does not pass on.
fn refuses_options(error: &tokio_postgres::Error) -> bool {
    let message = error.as_db_error().map_or("", |error| error.message());
    message.starts_with("unsupported startup parameter") && message.contains("options")
}

/// Connects to one server: tries each address of its name, which share the time.
async fn connect_to(
    url: &DatabaseUrl, config: &Config, (server_index, with_options): (usize, bool), within: Duration,
) -> Result<(Client, DriverConnection), ConnectError> {
    let port = config.get_ports().get(server_index).or_else(|| config.get_ports().first()).copied().unwrap_or(5432);
    let mut server_config = without_servers(config, with_options);
    server_config.port(port);
    let host = config.get_hosts().get(server_index);
    let address = config.get_hostaddrs().get(server_index);
    let name = match (host, address) {
        (Some(Host::Tcp(name)), _) => name.clone(),
        (Some(Host::Unix(path)), _) => path.display().to_string(),
        (None, Some(address)) => address.to_string(),
        (None, None) => String::new(),
    };
    match host {
        Some(Host::Unix(path)) => server_config.host_path(path),
        // TLS needs a name to verify.
        Some(Host::Tcp(_)) | None => server_config.host(&name),
    };
    let server = if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") };
    let options = url.tls(config, server_index);
    let is_local = matches!(host, Some(Host::Unix(_)));
    server_config.ssl_mode(if is_local { SslMode::Disable } else { SslMode::Require });
    if options.is_none() {
        // The driver asks the server for nothing, and the connector's stream is plain text.
        server_config.ssl_negotiation(SslNegotiation::Direct);
    }
    let tls = PostgresTls::load(options, &name, server.clone()).await;
    let failed = |error| ConnectError::Driver { earlier: String::new(), server: server.clone(), error };
    if let Some(address) = address {
        server_config.hostaddr(*address);
        return server_config.connect(tls).await.map_err(failed);
    }
    let Some(Host::Tcp(name)) = host else { return server_config.connect(tls).await.map_err(failed) };
    // The driver reports a name that cannot be resolved.
    let addresses: Vec<_> = match tokio::net::lookup_host((name.as_str(), port)).await {
        Ok(addresses) => addresses.collect(),
        Err(_) => return server_config.connect(tls).await.map_err(failed),
    };
    let time_for_each = within / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut failures = Failures::default();
    for address in addresses {
        let mut address_config = server_config.clone();
        address_config.hostaddr(address.ip());
        match timeout(time_for_each, address_config.connect(tls.clone())).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => failures.add(failed(error)),
            Err(_) => {}
        }
    }
    Err(failures.into_error())
}

/// A copy of everything but hosts and ports, which cannot be removed from a `Config`.
fn without_servers(from: &Config, with_options: bool) -> Config {
    let mut to = Config::new();
    to.channel_binding(from.get_channel_binding())
        .target_session_attrs(from.get_target_session_attrs())
        .keepalives(from.get_keepalives())
        .tcp_user_timeout(from.get_tcp_user_timeout().copied().unwrap_or(USER_TIMEOUT))
        .keepalives_interval(from.get_keepalives_interval().unwrap_or(KEEPALIVES_INTERVAL));
    let idle = from.get_keepalives_idle();
    to.keepalives_idle(if idle == Config::new().get_keepalives_idle() { KEEPALIVES_IDLE } else { idle });
    if let Some(user) = from.get_user() {
        to.user(user);
    }
    if let Some(password) = from.get_password() {
        to.password(password);
    }
    if let Some(name) = from.get_dbname() {
        to.dbname(name);
    }
    if let Some(options) = from.get_options().filter(|_| with_options) {
        to.options(options);
    }
    if let Some(name) = from.get_application_name() {
        to.application_name(name);
    }
    if let Some(retries) = from.get_keepalives_retries() {
        to.keepalives_retries(retries);
    }
    to
}
