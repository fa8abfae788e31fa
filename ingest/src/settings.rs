//! The settings of connect-ingest beside those of every service.

use crate::docs::DocsSettings;
use common::http::{ConnectionLimits, ConnectionTimes, TrustedProxies};
use common::settings::{ByteSize, Environment, Section, SettingError, Variable, error};
use common::variables;
use std::net::SocketAddr;
use std::time::Duration;

/// `/livez` fails after a round trip of a minute.
const LONGEST_STORE_TIMEOUT: Duration = Duration::from_secs(20);

/// The upper limit of `CONNECT_MAX_BODY`. RabbitMQ's default limit on a message is 16 MiB, and a larger message closes the
/// channel.
const LARGEST_BODY: usize = 16 << 20;

/// Maximum number of connections for records reads. Each may have a lane, and a place in its pool, from the start.
const READ_CONNECTIONS_MAX: u32 = 1_000;

/// The settings that only ingest has. The help of every limit names the response when it is reached.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the page of the API's description offers.
    pub(crate) docs: DocsSettings,
    /// The address that the API listens on.
    pub(crate) addr: SocketAddr,
    /// How long a request waits for the worker (D9).
    pub(crate) reply_timeout: Duration,
    /// How long the broker may take to confirm a publish.
    pub(crate) publish_timeout: Duration,
    /// How long one request may wait for Postgres altogether.
    pub(crate) store_timeout: Duration,
    /// Largest request body, in bytes.
    pub(crate) max_body: usize,
    /// How long a request body may take to arrive.
    pub(crate) body_timeout: Duration,
    /// Bytes allocated for bodies at once.
    pub(crate) body_budget: usize,
    /// Connections at once, and how long one waits for its caller.
    pub(crate) connections: ConnectionLimits,
    /// Proxies that name the peer of a request.
    pub(crate) trusted_proxies: TrustedProxies,
    /// Connections for records reads, to each server.
    pub(crate) read_connections: u32,
    /// The longest that published work should wait until the worker has applied it.
    pub(crate) backlog_target: Duration,
}

impl Section for Settings {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_INGEST_ADDR" => "127.0.0.1:8080", "address the API listens on; with port 0 the system chooses a free port";
        "CONNECT_REPLY_TIMEOUT" => "10s", "how long a request waits for the worker; then 503 processing_timeout";
        "CONNECT_PUBLISH_TIMEOUT" => "800ms", "how long the broker may take to confirm a batch; then 503 processing_timeout";
        "CONNECT_STORE_TIMEOUT" => "750ms", "how long a request waits for Postgres (keys, replay protection, reads), at most 20s; then 503 replay_store_unavailable";
        "CONNECT_MAX_BODY" => "4MiB", "largest request body, at most 16MiB; beyond it 413";
        "CONNECT_BODY_TIMEOUT" => "10s", "how long a request body may take to arrive; then 408";
        "CONNECT_BODY_BUDGET" => "256MiB", "bytes allocated for request bodies at once, at least twice CONNECT_MAX_BODY; of these an address may have a quarter and a network half; beyond it 503 overloaded";
        "CONNECT_MAX_CONNECTIONS" => "4096", "connections at once; beyond it the longest idle one, or the one whose body has been arriving for longest, is closed for a new one; if there is neither, the new one is closed";
        "CONNECT_MAX_CONNECTIONS_PER_PEER" => optional, "connections of one address at once; beyond it new ones are closed; a quarter of CONNECT_MAX_CONNECTIONS when not set";
        "CONNECT_MAX_CONNECTIONS_PER_NETWORK" => optional, "connections of one network (IPv4 /24, IPv6 /64) at once; beyond it new ones are closed; half of CONNECT_MAX_CONNECTIONS when not set";
        "CONNECT_READ_CONNECTIONS" => "8", "connections for records reads, 1 to 1000, to each of DATABASE_URL and DATABASE_READ_URL; from 4 on, one is reserved for reads of clients, one for those of leads, one for those of trips and one for feeds of webhooks";
        "CONNECT_BACKLOG_TARGET" => "300ms", "how long published events and writes should wait to be applied: ingest accepts as many as the worker applies in that time, shared fairly among tenants; beyond it 503 overloaded";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let max_body = env.get::<Self, ByteSize>("CONNECT_MAX_BODY")?.0;
        if max_body > LARGEST_BODY {
            return Err(error("CONNECT_MAX_BODY", "must be at most 16MiB, the broker's limit on a message"));
        }
        let body_budget = env.get::<Self, ByteSize>("CONNECT_BODY_BUDGET")?.0;
        if body_budget < 2 * max_body {
            return Err(error("CONNECT_BODY_BUDGET", "must be at least twice CONNECT_MAX_BODY"));
        }
        let store_timeout = env.get::<Self, Duration>("CONNECT_STORE_TIMEOUT")?;
        if store_timeout > LONGEST_STORE_TIMEOUT {
            return Err(error("CONNECT_STORE_TIMEOUT", "must be at most 20s"));
        }
        Ok(Self {
            docs: DocsSettings::from_env(env)?,
            addr: env.get::<Self, _>("CONNECT_INGEST_ADDR")?,
            reply_timeout: env.get::<Self, _>("CONNECT_REPLY_TIMEOUT")?,
            publish_timeout: env.get::<Self, _>("CONNECT_PUBLISH_TIMEOUT")?,
            store_timeout,
            max_body,
            body_timeout: env.get::<Self, _>("CONNECT_BODY_TIMEOUT")?,
            body_budget,
            connections: connection_limits(env)?,
            trusted_proxies: TrustedProxies::from_env(env)?,
            read_connections: env.up_to::<Self>("CONNECT_READ_CONNECTIONS", READ_CONNECTIONS_MAX)?,
            backlog_target: env.get::<Self, _>("CONNECT_BACKLOG_TARGET")?,
        })
    }
}

fn connection_limits(env: &Environment) -> Result<ConnectionLimits, SettingError> {
    let limit = |name| env.optional::<Settings, u32>(name);
    let all: u32 = env.get::<Settings, _>("CONNECT_MAX_CONNECTIONS")?;
    Ok(ConnectionLimits {
        all,
        per_peer: limit("CONNECT_MAX_CONNECTIONS_PER_PEER")?.unwrap_or((all / 4).max(1)),
        per_network: limit("CONNECT_MAX_CONNECTIONS_PER_NETWORK")?.unwrap_or((all / 2).max(1)),
        spare: 0,
        times: ConnectionTimes::from_env(env)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(pairs: &[(&str, &str)]) -> String {
        Settings::from_env(&Environment::from_pairs(pairs)).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_valid() {
        let settings = Settings::from_env(&Environment::from_pairs(&[])).unwrap();
        assert_eq!(settings.max_body, 4 << 20);
        let connections = settings.connections;
        assert_eq!((connections.all, connections.per_peer, connections.per_network), (4096, 1024, 2048));
    }

    #[test]
    fn a_limit_that_makes_no_sense_is_refused_with_what_is_expected() {
        for (name, most) in [("CONNECT_READ_CONNECTIONS", "1000"), ("CONNECT_MAX_CONNECTIONS", "4294967295")] {
            for value in ["-1", "0", "4294967296", "1e3", "many"] {
                let expected = format!("setting {name}: must be a whole number from 1 to {most}");
                assert_eq!(refusal(&[(name, value)]), expected, "{value}");
            }
        }
        let refusal = refusal(&[("CONNECT_READ_CONNECTIONS", "1001")]);
        assert_eq!(refusal, "setting CONNECT_READ_CONNECTIONS: must be a whole number from 1 to 1000");
    }
}
