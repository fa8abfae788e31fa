//! Making worlds.

use super::{Proxies, World};
use crate::MASTER_KEY;
use crate::connectctl::Connectctl;
use crate::database::{TestDatabase, new_name};
use crate::program::Program;
use crate::proxy::Proxy;
use crate::queues::Queues;
use crate::services;
use crate::url::{address, with_address};
use futures_util::future::join_all;

/// How a world differs from an ordinary one.
#[derive(Debug)]
pub struct WorldBuilder {
    database_url: Option<String>,
    amqp_url: Option<String>,
    heartbeat: Option<u16>,
    through_proxies: bool,
    ingests: usize,
    workers: usize,
    dispatchers: usize,
    settings: Vec<(String, String)>,
}

impl Default for WorldBuilder {
    fn default() -> Self {
        let (database_url, amqp_url) = (None, None);
        Self {
            database_url,
            amqp_url,
            heartbeat: None,
            through_proxies: false,
            ingests: 1,
            workers: 1,
            dispatchers: 0,
            settings: Vec::new(),
        }
    }
}

impl WorldBuilder {
    /// On a Postgres of the test's own instead of the shared one.
    pub fn on_postgres(mut self, url: &str) -> Self {
        self.database_url = Some(url.to_owned());
        self
    }

    /// On a RabbitMQ of the test's own instead of the shared one.
    pub fn on_broker(mut self, url: &str) -> Self {
        self.amqp_url = Some(url.to_owned());
        self
    }

    /// Seconds of the heartbeat between the programs and RabbitMQ, for a test in which it hangs for longer than usual.
    pub fn heartbeat(mut self, seconds: u16) -> Self {
        self.heartbeat = Some(seconds);
        self
    }

    /// The programs reach the servers through proxies; the test itself and `connectctl` go straight to them.
    pub fn through_proxies(mut self) -> Self {
        self.through_proxies = true;
        self
    }

    /// Number of ingests, at first.
    pub fn ingests(mut self, count: usize) -> Self {
        self.ingests = count;
        self
    }

    /// Number of workers, at first.
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = count;
        self
    }

    /// Number of dispatchers, at first.
    pub fn dispatchers(mut self, count: usize) -> Self {
        self.dispatchers = count;
        self
    }

    /// A setting of all programs.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A setting of all programs, unless it was set before.
    pub fn set_default(self, name: &str, value: &str) -> Self {
        if self.settings.iter().any(|(set, _)| set == name) { self } else { self.set(name, value) }
    }

    /// Makes it.
    pub async fn start(self) -> World {
        let database = match &self.database_url {
            Some(url) => TestDatabase::on(url).await,
            None => TestDatabase::new().await,
        };
        let mut amqp_url = self.amqp_url.unwrap_or_else(|| services::shared().amqp_url.clone());
        if let Some(seconds) = self.heartbeat {
            let separator = if amqp_url.contains('?') { '&' } else { '?' };
            amqp_url = format!("{amqp_url}{separator}heartbeat={seconds}");
        }
        let queues = Queues::new(&amqp_url, new_name());
        let settings = |database_url: &str, amqp_url: &str| {
            let mut settings = common_settings(database_url, amqp_url, queues.prefix());
            settings.extend(self.settings.iter().cloned());
            settings
        };
        let direct = settings(database.url(), &amqp_url);
        let proxies = self.through_proxies.then(|| Proxies {
            postgres: Proxy::to(&address(database.url(), 5432)),
            broker: Proxy::to(&address(&amqp_url, 5672)),
        });
        let proxied = proxies.as_ref().map_or_else(
            || direct.clone(),
            |Proxies { postgres, broker }| {
                settings(
                    &with_address(database.url(), postgres.address()),
                    &with_address(&amqp_url, broker.address()),
                )
            },
        );
        let ingests = join_all((0..self.ingests).map(|_| Program::ingest(&proxied)));
        let workers = join_all((0..self.workers).map(|_| Program::worker(&proxied)));
        let dispatchers = join_all((0..self.dispatchers).map(|_| Program::dispatcher(&proxied)));
        let (ingests, workers, dispatchers) = futures_util::join!(ingests, workers, dispatchers);
        let key = database.key().clone();
        let connectctl = Connectctl::with(direct);
        World { ingests, workers, dispatchers, queues, database, connectctl, key, settings: proxied, proxies }
    }
}

fn common_settings(database_url: &str, amqp_url: &str, prefix: &str) -> Vec<(String, String)> {
    let pairs = [
        ("DATABASE_URL", database_url),
        ("AMQP_URL", amqp_url),
        ("CONNECT_QUEUE_PREFIX", prefix),
        ("CONNECT_MASTER_KEY", MASTER_KEY),
        ("CONNECT_INGEST_ADDR", "127.0.0.1:0"),
        ("CONNECT_METRICS_ADDR", "127.0.0.1:0"),
        // Far above the defaults: on a busy machine a disk may take that long, and few tests are about it.
        ("CONNECT_STORE_TIMEOUT", "10s"),
        ("CONNECT_PUBLISH_TIMEOUT", "10s"),
        ("CONNECT_REPLY_TIMEOUT", "30s"),
        ("RUST_LOG", "info"),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}
