//! Declares the settings that several programs read, in sections. The other files of this directory parse values, except `retention`
//! and `console`, which declare their sections themselves.

use super::{BrokerUrls, ByteSize, DatabaseUrl, Environment, RetentionPeriod, Section, SettingError, Variable, error};
use crate::sealed::{MasterKey, MasterKeys};
use crate::{telemetry, variables};
use hyper::Uri;
use std::net::SocketAddr;
use std::time::Duration;
use tracing_subscriber::filter::Targets;

/// The least `CONNECT_READ_MAX_LAG`. The lag is measured four times in that time.
const READ_MAX_LAG_MIN: Duration = Duration::from_secs(1);

/// The Postgres servers for reads and writes.
#[derive(Clone, Debug)]
pub struct DatabaseSettings {
    /// Reads and writes. May hold a password, hence redacted.
    pub url: DatabaseUrl,
    /// Reads only: a replica, or the same.
    pub read_url: DatabaseUrl,
    /// By how much a replica may lag behind for reads.
    pub read_max_lag: Duration,
    /// The same servers as `url`, past a connection pooler: for notifications, session locks, and commits whose order matters.
    pub direct_url: DatabaseUrl,
}

impl Section for DatabaseSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "DATABASE_URL" => required, "Postgres, such as postgres://user:password@host:5432/connect; several hosts separated by commas; sslmode, sslrootcert, sslcert and sslkey as with libpq";
        "DATABASE_READ_URL" => optional, "Postgres for records reads of connect-ingest, such as a replica; DATABASE_URL when not set";
        "CONNECT_READ_MAX_LAG" => "5s", "by how much the replica of DATABASE_READ_URL may lag behind, at least 1s; while it lags further, records are read from DATABASE_URL";
        "DATABASE_DIRECT_URL" => optional, "Postgres past a connection pooler such as PgBouncer, for notifications, session locks, the worker and connectctl; DATABASE_URL when not set";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let url = env.get::<Self, DatabaseUrl>("DATABASE_URL")?.for_writes();
        // Without a replica, reads must see what was written before.
        let read_url = env.optional::<Self, _>("DATABASE_READ_URL")?.filter(|read_url| *read_url != url);
        let read_url = read_url.unwrap_or_else(|| url.clone());
        let read_max_lag = env.get::<Self, Duration>("CONNECT_READ_MAX_LAG")?;
        if read_max_lag < READ_MAX_LAG_MIN {
            return Err(error("CONNECT_READ_MAX_LAG", "must be at least 1s"));
        }
        let direct_url = env.optional::<Self, DatabaseUrl>("DATABASE_DIRECT_URL")?;
        let direct_url = direct_url.map_or_else(|| url.clone(), DatabaseUrl::for_writes);
        Ok(Self { url, read_url, read_max_lag, direct_url })
    }
}

/// The RabbitMQ servers, and the names and limits of the queues.
#[derive(Clone, Debug)]
pub struct BrokerSettings {
    /// Connection. May hold passwords, hence redacted.
    pub urls: BrokerUrls,
    /// First part of every queue's name.
    pub prefix: String,
    /// Maximum number of messages of a queue; the broker refuses more.
    pub max_length: u32,
    /// Maximum number of bytes of a queue; the broker refuses more.
    pub max_bytes: i64,
    /// How long the broker keeps messages in dead-letter queues.
    pub dead_letters: RetentionPeriod,
}

/// The longest TTL of RabbitMQ 3.10 is 2^32 - 1 milliseconds.
const DEAD_LETTERS_MAX: Duration = Duration::from_secs(49 * 86_400);

impl Section for BrokerSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "AMQP_URL" => required, "RabbitMQ, such as amqp://user:password@host:5672/%2f; several URLs separated by commas; amqps:// for TLS, with cacertfile, certfile, keyfile and server_name_indication";
        "CONNECT_QUEUE_PREFIX" => "connect", "prefix of every queue's name, so that several deployments can share a broker";
        "CONNECT_QUEUE_MAX_LENGTH" => "100000", "messages in a queue after which the broker refuses more (reject-publish)";
        "CONNECT_QUEUE_MAX_BYTES" => "4GiB", "bytes in a queue after which the broker refuses more (reject-publish)";
        "CONNECT_RETENTION_DEAD_LETTERS" => "off", "how long RabbitMQ keeps messages in dead-letter queues, except those of webhooks, which can be replayed, at most 49d; off keeps them";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let urls: BrokerUrls = env.get::<Self, _>("AMQP_URL")?;
        let ByteSize(max_bytes) = env.get::<Self, _>("CONNECT_QUEUE_MAX_BYTES")?;
        let prefix: String = env.get::<Self, _>("CONNECT_QUEUE_PREFIX")?;
        let plain = prefix.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if !plain || prefix.len() > 100 {
            return Err(error("CONNECT_QUEUE_PREFIX", "must be at most 100 letters, digits, '-', '_' or '.'"));
        }
        let dead_letters: RetentionPeriod = env.get::<Self, _>("CONNECT_RETENTION_DEAD_LETTERS")?;
        if dead_letters.length().is_some_and(|length| length > DEAD_LETTERS_MAX) {
            return Err(error("CONNECT_RETENTION_DEAD_LETTERS", "must be off or at most 49d"));
        }
        // RabbitMQ keeps these names for itself, and would refuse every declaration.
        if prefix == "amq" || prefix.starts_with("amq.") {
            return Err(error(
                "CONNECT_QUEUE_PREFIX",
                "must not be 'amq' or begin with 'amq.', which RabbitMQ reserves",
            ));
        }
        Ok(Self {
            urls,
            prefix,
            dead_letters,
            max_length: env.get::<Self, _>("CONNECT_QUEUE_MAX_LENGTH")?,
            max_bytes: i64::try_from(max_bytes).unwrap_or(i64::MAX),
        })
    }
}

/// The master key that encrypts secrets at rest, and the other one during a rotation.
#[derive(Clone, Debug)]
pub struct SealingSettings {
    /// The operator's master keys (D5).
    pub master_keys: MasterKeys,
}

impl Section for SealingSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_MASTER_KEY" => required, "32 bytes in base64, the same for all programs: seals the secrets of API keys and subscriptions, and signs the messages between the programs";
        "CONNECT_MASTER_KEY_PREVIOUS" => optional, "second master key while it is rotated: opens what is sealed and accepts messages that are signed with it, but seals and signs nothing";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let current: MasterKey = env.get::<Self, _>("CONNECT_MASTER_KEY")?;
        let previous = env.optional::<Self, MasterKey>("CONNECT_MASTER_KEY_PREVIOUS")?;
        // The same key twice is one key.
        let previous = previous.filter(|previous| previous.id() != current.id());
        Ok(Self { master_keys: MasterKeys { current, previous } })
    }
}

/// Settings of every service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceSettings {
    /// Where `/metrics`, `/livez` and `/readyz` are; `None` for the program's own default.
    pub metrics_addr: Option<SocketAddr>,
    /// Longest duration of the graceful shutdown.
    pub shutdown_timeout: Duration,
}

impl Section for ServiceSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_METRICS_ADDR" => optional, "address of /metrics, /livez and /readyz; 127.0.0.1:9101 (ingest), :9102 (worker), :9103 (dispatcher), :9104 (console) when not set";
        "CONNECT_SHUTDOWN_TIMEOUT" => "25s", "how long the drain after SIGTERM may take";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self {
            metrics_addr: env.optional::<Self, _>("CONNECT_METRICS_ADDR")?,
            shutdown_timeout: env.get::<Self, _>("CONNECT_SHUTDOWN_TIMEOUT")?,
        })
    }
}

/// Filter and format of the log.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Which lines are written.
    pub filter: Targets,
    /// Whether each line is a JSON object; otherwise text.
    pub json: bool,
}

impl Section for LogSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "RUST_LOG" => "info", "log levels, for all targets or for one, such as info or worker=debug,info";
        "CONNECT_LOG" => "json", "format of the log on standard error: json or text";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let form: String = env.get::<Self, _>("CONNECT_LOG")?;
        let json = match form.as_str() {
            "json" => true,
            "text" => false,
            _ => return Err(error("CONNECT_LOG", "must be json or text")),
        };
        let directives: String = env.get::<Self, _>("RUST_LOG")?;
        let filter = telemetry::filter(&directives).map_err(|what| error("RUST_LOG", &what))?;
        Ok(Self { filter, json })
    }
}

/// The collector that spans are exported to.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    /// URL that traces are posted to (OTLP/HTTP); `None` disables the export.
    pub url: Option<Uri>,
}

impl Section for TraceSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => optional, "collector that spans are exported to with OTLP/HTTP (JSON), such as http://localhost:4318; no export when not set";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        const NAME: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let Some(base) = env.optional::<Self, String>(NAME)? else { return Ok(Self { url: None }) };
        let url = format!("{}/v1/traces", base.trim_end_matches('/')).parse::<Uri>().ok();
        let url = url.filter(|url| matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some());
        let wrong = || error(NAME, "must be a URL such as http://localhost:4318");
        Ok(Self { url: Some(url.ok_or_else(wrong)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_posted_below_the_endpoint() {
        let of = |base| TraceSettings::from_env(&Environment::from_pairs(&[("OTEL_EXPORTER_OTLP_ENDPOINT", base)]));
        for (base, url) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("https://collector.example/otlp/", "https://collector.example/otlp/v1/traces"),
        ] {
            assert_eq!(of(base).unwrap().url.unwrap().to_string(), url);
        }
        assert!(of(" ").unwrap().url.is_none());
        for bad in ["localhost:4318", "grpc://localhost:4317", "http://", "/v1"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_that_rabbitmq_reserves_are_no_prefix() {
        for (prefix, is_usable) in [("amq", false), ("amq.x", false), ("amqp", true), ("x.amq", true)] {
            let settings = [("AMQP_URL", "amqp://localhost"), ("CONNECT_QUEUE_PREFIX", prefix)];
            let read = BrokerSettings::from_env(&Environment::from_pairs(&settings));
            assert_eq!(read.is_ok(), is_usable, "{prefix}: {:?}", read.err());
        }
    }

    #[test]
    fn a_setting_can_be_in_a_file() {
        let file = std::env::temp_dir().join(format!("connect-setting-{}", std::process::id()));
        std::fs::write(&file, "postgres://a/b\n").unwrap();
        let path = file.to_str().unwrap();
        let url =
            |pairs: &[(&str, &str)]| DatabaseSettings::from_env(&Environment::from_pairs(pairs)).map(|read| read.url);
        assert_eq!(url(&[("DATABASE_URL_FILE", path)]), url(&[("DATABASE_URL", "postgres://a/b")]));
        let twice = url(&[("DATABASE_URL_FILE", path), ("DATABASE_URL", "postgres://a/b")]).unwrap_err();
        assert_eq!(twice.to_string(), "setting DATABASE_URL_FILE: cannot be combined with DATABASE_URL");
        std::fs::write(&file, " \n").unwrap();
        let empty = url(&[("DATABASE_URL_FILE", path)]).unwrap_err();
        assert_eq!(empty.to_string(), "setting DATABASE_URL: is required");
        std::fs::remove_file(&file).unwrap();
        let missing = url(&[("DATABASE_URL_FILE", path)]).unwrap_err();
        assert!(missing.to_string().starts_with("setting DATABASE_URL_FILE: must be a readable file: "), "{missing}");
    }

    #[test]
    fn reads_use_database_url_by_default() {
        let read = DatabaseSettings::from_env(&Environment::from_pairs(&[("DATABASE_URL", "postgres://a/b")])).unwrap();
        assert_eq!(read.read_url, read.url);
        assert_eq!(read.direct_url, read.url);
    }
}
