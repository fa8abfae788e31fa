//! Connecting to one of several servers. Each has its share of the time, in which it must have let the session in: one
//! that accepts and then says nothing is as good as away. The one that worked last is tried first.

use crate::limited;
use crate::log_limit::LogLimit;
use crate::settings::DatabaseUrl;
use deadpool_postgres::Connect;
use futures_util::future::BoxFuture;
use std::time::Duration;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};

/// What moves a connection's bytes.
pub type Connected = Connection<Socket, NoTlsStream>;

/// Which lost connections are logged.
static LOST: LogLimit<1> = LogLimit::new();

/// A server that vanished without a word is noticed within seconds, unless the URL says otherwise.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(2);
const USER_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// No server has let the session in, and none has refused it.
    #[error("no server accepted the session in time")]
    TimedOut,
    /// What the driver said of the last server that it had a reply from.
    #[error("{0}")]
    Driver(tokio_postgres::Error),
}

/// The last refusal of several servers or addresses; without one they have all timed out.
#[derive(Default)]
struct Failures(Option<tokio_postgres::Error>);

impl Failures {
    fn into_error(self) -> ConnectError {
        self.0.map_or(ConnectError::TimedOut, ConnectError::Driver)
    }

    fn add(&mut self, error: ConnectError) {
        if let ConnectError::Driver(error) = error {
            self.0 = Some(error);
        }
    }
}

/// Connects to one of the servers of `url` as `config` says, which was made of it. `within` is shared by all servers,
/// unless the URL's `connect_timeout` says how long each may take.
pub async fn connect(
    url: &DatabaseUrl,
    config: &Config,
    within: Duration,
) -> Result<(Client, Connected), ConnectError> {
    let share = share(url, within);
    let first = match config.get_load_balance_hosts() {
        LoadBalanceHosts::Random => rand::random_range(0..url.servers()),
        LoadBalanceHosts::Disable | _ => url.preferred(),
    };
    let mut failures = Failures::default();
    for place in (0..url.servers()).map(|next| (first + next) % url.servers()) {
        // Should the caller's patience end first, the next try begins with the next server.
        let trying = Trying { url, place, answered: false };
        match timeout(share, connect_to(config, place, share)).await {
            Ok(Ok(connected)) => {
                trying.answered();
                return Ok(connected);
            }
            Ok(Err(error)) => failures.add(error),
            Err(_) => {}
        }
    }
    Err(failures.into_error())
}

/// The longest that [`connect`] takes.
pub(super) fn longest(url: &DatabaseUrl, within: Duration) -> Duration {
    share(url, within).saturating_mul(count(url))
}

fn share(url: &DatabaseUrl, within: Duration) -> Duration {
    url.config().get_connect_timeout().copied().unwrap_or(within / count(url))
}

fn count(url: &DatabaseUrl) -> u32 {
    u32::try_from(url.servers()).unwrap_or(u32::MAX)
}

/// A server that is being tried. It is avoided when this ends without an answer.
struct Trying<'a> {
    url: &'a DatabaseUrl,
    place: usize,
    answered: bool,
}

impl Trying<'_> {
    fn answered(mut self) {
        self.answered = true;
        self.url.prefer(self.place);
    }
}

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.url.avoid(self.place);
        }
    }
}

/// Connects to one server: to each address of its name, which share the time.
async fn connect_to(
    config: &Config,
    place: usize,
    within: Duration,
) -> Result<(Client, Connected), ConnectError> {
    let port = config.get_ports().get(place).or_else(|| config.get_ports().first()).copied().unwrap_or(5432);
    let mut one = without_servers(config);
    one.port(port);
    let host = config.get_hosts().get(place);
    match host {
        Some(Host::Tcp(name)) => one.host(name.as_str()),
        Some(Host::Unix(path)) => one.host_path(path),
        None => &mut one,
    };
    if let Some(address) = config.get_hostaddrs().get(place) {
        one.hostaddr(*address);
        return one.connect(NoTls).await.map_err(ConnectError::Driver);
    }
    let Some(Host::Tcp(name)) = host else { return one.connect(NoTls).await.map_err(ConnectError::Driver) };
    // A name that can't be resolved is reported by the driver.
    let addresses: Vec<_> = match tokio::net::lookup_host((name.as_str(), port)).await {
        Ok(addresses) => addresses.collect(),
        Err(_) => return one.connect(NoTls).await.map_err(ConnectError::Driver),
    };
    let each = within / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut failures = Failures::default();
    for address in addresses {
        let mut one = one.clone();
        one.hostaddr(address.ip());
        match timeout(each, one.connect(NoTls)).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => failures.add(ConnectError::Driver(error)),
            Err(_) => {}
        }
    }
    Err(failures.into_error())
}

/// The same without hosts and ports, which can be added to a configuration and not taken away.
fn without_servers(from: &Config) -> Config {
    let mut to = Config::new();
    to.ssl_mode(from.get_ssl_mode())
        .channel_binding(from.get_channel_binding())
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
    if let Some(options) = from.get_options() {
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

/// How a pool makes its connections.
pub(super) struct OneOfServers {
    url: DatabaseUrl,
    within: Duration,
}

impl OneOfServers {
    /// `within` as for [`connect`].
    pub(super) fn new(url: &DatabaseUrl, within: Duration) -> Self {
        Self { url: url.clone(), within }
    }
}

impl Connect for OneOfServers {
    fn connect(
        &self,
        config: &Config,
    ) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        let config = config.clone();
        Box::pin(async move {
            let (client, connection) = match connect(&self.url, &config, self.within).await {
                Ok(connected) => connected,
                Err(ConnectError::Driver(error)) => return Err(error),
                // The pool waits for no longer than this has taken, and has an error of its own for it.
                Err(ConnectError::TimedOut) => std::future::pending().await,
            };
            let driver = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    limited!(LOST[0], warn, %error, "database connection lost");
                }
            });
            Ok((client, driver))
        })
    }
}
