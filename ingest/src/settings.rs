//! The settings of connect-ingest: its own section, and which of the shared ones it reads.

use crate::connections::{ConnectionLimits, TrustedProxies};
use common::program::Program;
use common::sealed::MasterKey;
use common::settings::{
    BrokerSettings, ByteSize, DatabaseSettings, Environment, LogSettings, MessageSettings, SealingSettings,
    Section, ServiceSettings, SettingError, TraceSettings, Variable, error,
};
use std::net::SocketAddr;
use std::time::Duration;

/// Largest body that may be allowed. RabbitMQ's default limit on a message is 16 MiB, and one that is larger costs
/// the whole channel: what HTTP accepts, the queue must take.
const LARGEST_BODY: usize = 16 << 20;

/// Everything connect-ingest is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where Postgres is.
    pub database: DatabaseSettings,
    /// Where RabbitMQ is.
    pub broker: BrokerSettings,
    /// Which messages are trusted.
    pub messages: MessageSettings,
    /// Ingest's own.
    pub ingest: IngestSettings,
    /// What every service has.
    pub service: ServiceSettings,
    /// Logs.
    pub log: LogSettings,
    /// Where spans are exported to.
    pub trace: TraceSettings,
}

impl Program for Settings {
    const NAME: &'static str = "connect-ingest";
    const ABOUT: &'static str =
        "authenticates and validates what partners send, publishes it to RabbitMQ, and answers";
    const VARIABLES: &'static [&'static [Variable]] = &[
        DatabaseSettings::VARIABLES,
        BrokerSettings::VARIABLES,
        SealingSettings::VARIABLES,
        MessageSettings::VARIABLES,
        IngestSettings::VARIABLES,
        ServiceSettings::VARIABLES,
        LogSettings::VARIABLES,
        TraceSettings::VARIABLES,
    ];

    fn read(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self {
            database: DatabaseSettings::read(env)?,
            broker: BrokerSettings::read(env)?,
            messages: MessageSettings::read(env)?,
            ingest: IngestSettings::read(env)?,
            service: ServiceSettings::read(env)?,
            log: LogSettings::read(env)?,
            trace: TraceSettings::read(env)?,
        })
    }

    fn log(&self) -> &LogSettings {
        &self.log
    }

    fn trace(&self) -> &TraceSettings {
        &self.trace
    }
}

/// What only ingest has. Every bound names the answer that is given when it is reached.
#[derive(Clone, Debug)]
pub struct IngestSettings {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Opens the secrets of API keys (D5).
    pub master_key: MasterKey,
    /// How long a request waits for the worker (D9).
    pub reply_timeout: Duration,
    /// How long the broker may take to confirm a publish.
    pub publish_timeout: Duration,
    /// How long one request may wait for Postgres altogether.
    pub store_timeout: Duration,
    /// Largest request body, in bytes.
    pub max_body: usize,
    /// How long a request body may take to arrive.
    pub body_timeout: Duration,
    /// Bytes allocated for bodies at once.
    pub body_budget: usize,
    /// Connections at once, and how long one may idle.
    pub connections: ConnectionLimits,
    /// Proxies that name the peer of a request.
    pub trusted_proxies: TrustedProxies,
    /// Connections for records reads.
    pub read_connections: u32,
    /// Requests at once; only those with a valid signature count.
    pub max_in_flight: u32,
    /// Those of one agency.
    pub max_in_flight_per_tenant: u32,
    /// Longest that published work is to wait until the worker has applied it.
    pub backlog_target: Duration,
}

impl Section for IngestSettings {
    const VARIABLES: &'static [Variable] = &[
        Variable {
            name: "CONNECT_INGEST_ADDR",
            default: Some("127.0.0.1:8080"),
            help: "address the API listens on; port 0 takes a free one",
        },
        Variable {
            name: "CONNECT_REPLY_TIMEOUT",
            default: Some("10s"),
            help: "how long a request waits for the worker; then 503 processing_timeout",
        },
        Variable {
            name: "CONNECT_PUBLISH_TIMEOUT",
            default: Some("800ms"),
            help: "how long the broker may take to confirm a batch; then 503 processing_timeout",
        },
        Variable {
            name: "CONNECT_STORE_TIMEOUT",
            default: Some("750ms"),
            help: "how long a request waits for Postgres (keys, replay protection, reads); then 503 replay_store_unavailable",
        },
        Variable {
            name: "CONNECT_MAX_BODY",
            default: Some("4MiB"),
            help: "largest request body, at most 16MiB; beyond it 413",
        },
        Variable {
            name: "CONNECT_BODY_TIMEOUT",
            default: Some("10s"),
            help: "how long a request body may take to arrive; then 408",
        },
        Variable {
            name: "CONNECT_BODY_BUDGET",
            default: Some("256MiB"),
            help: "bytes allocated for request bodies at once, at least twice CONNECT_MAX_BODY; of these an address may have a quarter and a network half; beyond it 503 overloaded",
        },
        Variable {
            name: "CONNECT_HEADER_TIMEOUT",
            default: Some("30s"),
            help: "how long a request's head may take, an idle connection may stay open, and a response may stay unread; less when more than half of CONNECT_MAX_CONNECTIONS are open",
        },
        Variable {
            name: "CONNECT_MAX_CONNECTIONS",
            default: Some("4096"),
            help: "connections at once; beyond it the longest idle one, or the one whose body has been arriving for longest, is closed for a new one, without such a one the new one is",
        },
        Variable {
            name: "CONNECT_MAX_CONNECTIONS_PER_PEER",
            default: Some(""),
            help: "connections of one address at once; beyond it new ones are closed; a quarter of CONNECT_MAX_CONNECTIONS when not set",
        },
        Variable {
            name: "CONNECT_MAX_CONNECTIONS_PER_NETWORK",
            default: Some(""),
            help: "connections of one network (IPv4 /24, IPv6 /64) at once; beyond it new ones are closed; half of CONNECT_MAX_CONNECTIONS when not set",
        },
        Variable {
            name: "CONNECT_TRUSTED_PROXIES",
            default: Some(""),
            help: "networks of proxies in front, such as 10.0.0.0/8,192.0.2.7, whose header Forwarded or X-Forwarded-For names the peer; their connections have no share, and the requests of each peer and network behind them are limited as its connections are: beyond it 503 overloaded",
        },
        Variable {
            name: "CONNECT_READ_CONNECTIONS",
            default: Some("8"),
            help: "connections to DATABASE_READ_URL for records reads",
        },
        Variable {
            name: "CONNECT_MAX_IN_FLIGHT",
            default: Some("512"),
            help: "requests with a valid signature at once; beyond it 503 overloaded",
        },
        Variable {
            name: "CONNECT_MAX_IN_FLIGHT_PER_TENANT",
            default: Some("128"),
            help: "requests of one agency at once, and less, down to an equal part of CONNECT_MAX_IN_FLIGHT, as those are taken; beyond it 503 overloaded",
        },
        Variable {
            name: "CONNECT_BACKLOG_TARGET",
            default: Some("600ms"),
            help: "how long published events and writes may wait to be applied: as many are taken in as the worker does in that time, shared fairly among agencies; beyond it 503 overloaded",
        },
    ];

    fn read(env: &Environment) -> Result<Self, SettingError> {
        let max_body = env.get::<Self, ByteSize>("CONNECT_MAX_BODY")?.0;
        if max_body > LARGEST_BODY {
            return Err(error("CONNECT_MAX_BODY", "must be at most 16MiB, the broker's limit on a message"));
        }
        let body_budget = env.get::<Self, ByteSize>("CONNECT_BODY_BUDGET")?.0;
        if !(2 * max_body..=tokio::sync::Semaphore::MAX_PERMITS).contains(&body_budget) {
            return Err(error("CONNECT_BODY_BUDGET", "must be at least twice CONNECT_MAX_BODY"));
        }
        Ok(Self {
            addr: env.get::<Self, _>("CONNECT_INGEST_ADDR")?,
            master_key: SealingSettings::read(env)?.master_key,
            reply_timeout: env.get::<Self, _>("CONNECT_REPLY_TIMEOUT")?,
            publish_timeout: env.get::<Self, _>("CONNECT_PUBLISH_TIMEOUT")?,
            store_timeout: env.get::<Self, _>("CONNECT_STORE_TIMEOUT")?,
            max_body,
            body_timeout: env.get::<Self, _>("CONNECT_BODY_TIMEOUT")?,
            body_budget,
            connections: connection_limits(env)?,
            trusted_proxies: env.optional::<Self, _>("CONNECT_TRUSTED_PROXIES")?.unwrap_or_default(),
            read_connections: env.get::<Self, _>("CONNECT_READ_CONNECTIONS")?,
            max_in_flight: env.get::<Self, _>("CONNECT_MAX_IN_FLIGHT")?,
            max_in_flight_per_tenant: env.get::<Self, _>("CONNECT_MAX_IN_FLIGHT_PER_TENANT")?,
            backlog_target: env.get::<Self, _>("CONNECT_BACKLOG_TARGET")?,
        })
    }
}

fn connection_limits(env: &Environment) -> Result<ConnectionLimits, SettingError> {
    let limit = |name| env.optional::<IngestSettings, u32>(name);
    let all: u32 = env.get::<IngestSettings, _>("CONNECT_MAX_CONNECTIONS")?;
    Ok(ConnectionLimits {
        all,
        per_peer: limit("CONNECT_MAX_CONNECTIONS_PER_PEER")?.unwrap_or((all / 4).max(1)),
        per_network: limit("CONNECT_MAX_CONNECTIONS_PER_NETWORK")?.unwrap_or((all / 2).max(1)),
        header_timeout: env.get::<IngestSettings, _>("CONNECT_HEADER_TIMEOUT")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: (&str, &str) = ("CONNECT_MASTER_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");

    fn refusal(pairs: &[(&str, &str)]) -> String {
        IngestSettings::read(&Environment::of(pairs)).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_valid_and_only_the_master_key_is_required() {
        let settings = IngestSettings::read(&Environment::of(&[KEY])).unwrap();
        assert_eq!((settings.max_body, settings.max_in_flight), (4 << 20, 512));
        let connections = settings.connections;
        assert_eq!((connections.all, connections.per_peer, connections.per_network), (4096, 1024, 2048));
        assert_eq!(refusal(&[]), "setting CONNECT_MASTER_KEY: is required");
    }

    #[test]
    fn a_body_must_fit_into_a_message_and_into_the_budget() {
        assert!(refusal(&[KEY, ("CONNECT_MAX_BODY", "17MiB")]).starts_with("setting CONNECT_MAX_BODY: "));
        assert!(
            refusal(&[KEY, ("CONNECT_BODY_BUDGET", "7MiB")]).starts_with("setting CONNECT_BODY_BUDGET: ")
        );
    }

    #[test]
    fn no_variable_is_declared_twice() {
        let mut names: Vec<_> =
            Settings::VARIABLES.iter().copied().flatten().map(|variable| variable.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
