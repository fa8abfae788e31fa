//! Connecting to one of several servers. Each has an equal share of the time, within which the session must be established: a
//! server that accepts the connection and does not respond counts as unavailable. The server that worked last is tried first.

use super::error::describe;
use super::tls::{EncryptedStream, PostgresTls};
use crate::limited;
use crate::log_limit::LogLimit;
use crate::settings::DatabaseUrl;
use deadpool_postgres::Connect;
use futures_util::future::BoxFuture;
use std::time::Duration;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode};
use tokio_postgres::{Client, Config, Connection, Socket};

/// The driver of a connection: a future that must be polled for its client to make progress.
pub type DriverConnection = Connection<Socket, EncryptedStream>;

/// Limits the log lines about connections that were lost, and that could not be opened.
static FAILED: LogLimit<2> = LogLimit::new();
const LOST: usize = 0;
const NOT_OPENED: usize = 1;

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
    url: &DatabaseUrl,
    config: &Config,
    within: Duration,
) -> Result<(Client, DriverConnection), ConnectError> {
    let share = share(url, within);
    let first = match config.get_load_balance_hosts() {
        LoadBalanceHosts::Random => rand::random_range(0..url.servers()),
        LoadBalanceHosts::Disable | _ => url.preferred(),
    };
    let mut failures = Failures::default();
    for place in (0..url.servers()).map(|next| (first + next) % url.servers()) {
        // If the caller times out first, dropping the attempt makes the next one begin with the next server.
        let attempt = ConnectAttempt { url, place, responded: false };
        match timeout(share, connect_with_accepted_options(url, config, place, share)).await {
            Ok(Ok(connected)) => {
                attempt.responded();
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

/// A connection attempt to one server. When it is dropped without a response the server is avoided.
struct ConnectAttempt<'a> {
    url: &'a DatabaseUrl,
    place: usize,
    responded: bool,
}

impl ConnectAttempt<'_> {
    fn responded(mut self) {
        self.responded = true;
        self.url.prefer(self.place);
    }
}

impl Drop for ConnectAttempt<'_> {
    fn drop(&mut self) {
        if !self.responded {
            self.url.avoid(self.place);
        }
    }
}

/// Connects to one server; without the options of the session if the server, which is a pooler then, refuses them.
async fn connect_with_accepted_options(
    url: &DatabaseUrl,
    config: &Config,
    place: usize,
    within: Duration,
) -> Result<(Client, DriverConnection), ConnectError> {
    let with_options = url.accepts_options();
    // Boxed: an attempt's state is large, and every task that may connect would hold it.
    let connected = Box::pin(connect_to(url, config, (place, with_options), within)).await;
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
        tracing::warn!(
            "a connection pooler refuses the session's options; its role must have these settings"
        );
    }
    Box::pin(connect_to(url, config, (place, false), within)).await
}

/// PgBouncer's error for a startup parameter that it does not pass on.
fn refuses_options(error: &tokio_postgres::Error) -> bool {
    let message = error.as_db_error().map_or("", |error| error.message());
    message.starts_with("unsupported startup parameter") && message.contains("options")
}

/// Connects to one server: tries each address of its name, which share the time.
async fn connect_to(
    url: &DatabaseUrl,
    config: &Config,
    (place, with_options): (usize, bool),
    within: Duration,
) -> Result<(Client, DriverConnection), ConnectError> {
    let port = config.get_ports().get(place).or_else(|| config.get_ports().first()).copied().unwrap_or(5432);
    let mut one = without_servers(config, with_options);
    one.port(port);
    let host = config.get_hosts().get(place);
    let address = config.get_hostaddrs().get(place);
    let name = match (host, address) {
        (Some(Host::Tcp(name)), _) => name.clone(),
        (Some(Host::Unix(path)), _) => path.display().to_string(),
        (None, Some(address)) => address.to_string(),
        (None, None) => String::new(),
    };
    match host {
        Some(Host::Unix(path)) => one.host_path(path),
        // TLS needs a name to verify.
        Some(Host::Tcp(_)) | None => one.host(&name),
    };
    let server = if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") };
    let options = url.tls(config, place);
    one.ssl_mode(if options.is_some() { SslMode::Require } else { SslMode::Disable });
    let tls = PostgresTls::load(options, &name, server.clone()).await;
    let failed = |error| ConnectError::Driver { earlier: String::new(), server: server.clone(), error };
    if let Some(address) = address {
        one.hostaddr(*address);
        return one.connect(tls).await.map_err(failed);
    }
    let Some(Host::Tcp(name)) = host else { return one.connect(tls).await.map_err(failed) };
    // The driver reports a name that cannot be resolved.
    let addresses: Vec<_> = match tokio::net::lookup_host((name.as_str(), port)).await {
        Ok(addresses) => addresses.collect(),
        Err(_) => return one.connect(tls).await.map_err(failed),
    };
    let each = within / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut failures = Failures::default();
    for address in addresses {
        let mut one = one.clone();
        one.hostaddr(address.ip());
        match timeout(each, one.connect(tls.clone())).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => failures.add(failed(error)),
            Err(_) => {}
        }
    }
    Err(failures.into_error())
}

/// A copy without hosts and ports, which cannot be removed from a configuration.
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

/// Opens the connections of a pool, with failover between the servers of its URL.
pub(super) struct FailoverConnect {
    url: DatabaseUrl,
    within: Duration,
}

impl FailoverConnect {
    /// `within` as for [`connect`].
    pub(super) fn new(url: &DatabaseUrl, within: Duration) -> Self {
        Self { url: url.clone(), within }
    }
}

impl Connect for FailoverConnect {
    fn connect(
        &self,
        config: &Config,
    ) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        let config = config.clone();
        Box::pin(async move {
            let (client, connection) = match connect(&self.url, &config, self.within).await {
                Ok(connected) => connected,
                Err(failure @ ConnectError::Driver { .. }) => {
                    let why = failure.to_string();
                    limited!(
                        FAILED[NOT_OPENED],
                        warn,
                        error = why,
                        "connecting to Postgres failed; the next use of the pool retries"
                    );
                    let ConnectError::Driver { error, .. } = failure else { unreachable!("matched above") };
                    return Err(error);
                }
                // The pool's own timeout is no longer than this took, and reports it.
                Err(ConnectError::TimedOut) => std::future::pending().await,
            };
            let driver = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    limited!(FAILED[LOST], warn, %error, "database connection lost; the pool replaces it when needed");
                }
            });
            Ok((client, driver))
        })
    }
}
