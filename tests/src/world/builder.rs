//! The builder of worlds.

use super::{Proxies, World, shared};
use crate::connectctl::Connectctl;
use crate::database::TestDatabase;
use crate::program::Program;
use crate::proxy::Proxy;
use crate::queues::Queues;
use crate::url::{address, with_address};
use crate::{MASTER_KEY, duration, services};
use futures_util::future::join_all;

/// Programs, servers and settings of a world to be started.
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
        let (database_url, amqp_url, heartbeat, through_proxies) = (None, None, None, false);
        let (ingests, workers, dispatchers, settings) = (1, 1, 0, Vec::new());
        Self { database_url, amqp_url, heartbeat, through_proxies, ingests, workers, dispatchers, settings }
    }
}

impl WorldBuilder {
    /// Uses a dedicated Postgres instead of the shared one.
    pub fn on_postgres(mut self, url: &str) -> Self {
        self.database_url = Some(url.to_owned());
        self
    }

    /// Uses a dedicated RabbitMQ instead of the shared one.
    pub fn on_broker(mut self, url: &str) -> Self {
        self.amqp_url = Some(url.to_owned());
        self
    }

    /// Sets the heartbeat between the programs and RabbitMQ in seconds, for a test in which the broker hangs for long.
    pub fn heartbeat(mut self, seconds: u16) -> Self {
        self.heartbeat = Some(seconds);
        self
    }

    /// The programs reach the servers through proxies; the test itself and `connectctl` connect directly.
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

    /// Sets a setting of all programs.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets a setting of all programs, unless it was set before.
    pub fn set_default(self, name: &str, value: &str) -> Self {
        if self.settings.iter().any(|(set, _)| set == name) { self } else { self.set(name, value) }
    }

    /// Joins the shared world, and starts ingests of its own there with these settings. They share the other programs, so that other
    /// settings of a builder have no effect.
    pub async fn join(self) -> World {
        let mut world = shared::join().await;
        world.settings.extend(self.settings);
        world.ingests = join_all((0..self.ingests).map(|_| Program::ingest(&world.settings))).await;
        world
    }

    /// Creates database and queues and starts the programs.
    pub async fn start(self) -> World {
        duration::measure();
        let database = match &self.database_url {
            Some(url) => TestDatabase::on(url).await,
            None => TestDatabase::new().await,
        };
        let mut amqp_url = self.amqp_url.unwrap_or_else(|| services::shared_servers().amqp_url.clone());
        if let Some(seconds) = self.heartbeat {
            let separator = if amqp_url.contains('?') { '&' } else { '?' };
            amqp_url = format!("{amqp_url}{separator}heartbeat={seconds}");
        }
        // Named like the database, by which the next process finds them should this one not delete them.
        let queues = Queues::new(&amqp_url, database.name().to_owned());
        let for_urls = |database_url: &str, amqp_url: &str| {
            let mut settings = common_settings(database_url, amqp_url, queues.prefix());
            settings.extend(self.settings.iter().cloned());
            settings
        };
        let direct = for_urls(database.url(), &amqp_url);
        let proxies = self.through_proxies.then(|| Proxies {
            postgres: Proxy::to(&address(database.url(), 5432)),
            broker: Proxy::to(&address(&amqp_url, 5672)),
        });
        let settings = proxies.as_ref().map_or_else(
            || direct.clone(),
            |Proxies { postgres, broker }| {
                for_urls(&with_address(database.url(), postgres.address()), &with_address(&amqp_url, broker.address()))
            },
        );
        let connectctl = Connectctl::with(direct);
        // Ingest may not declare queues. Where no consumer starts with it, an operator does.
        if self.workers == 0 || self.dispatchers == 0 {
            connectctl.json(&["queue", "declare"]).await;
        }
        let ingests = join_all((0..self.ingests).map(|_| Program::ingest(&settings)));
        let workers = join_all((0..self.workers).map(|_| Program::worker(&settings)));
        let dispatchers = join_all((0..self.dispatchers).map(|_| Program::dispatcher(&settings)));
        let (ingests, workers, dispatchers) = futures_util::join!(ingests, workers, dispatchers);
        let key = database.key().clone();
        World { ingests, workers, dispatchers, queues, database, connectctl, key, settings, proxies, shared: None }
    }
}

/// The settings that all programs of the tests have.
pub(crate) fn common_settings(database_url: &str, amqp_url: &str, prefix: &str) -> Vec<(String, String)> {
    let pairs = [
        ("DATABASE_URL", database_url),
        ("AMQP_URL", amqp_url),
        ("CONNECT_QUEUE_PREFIX", prefix),
        ("CONNECT_MASTER_KEY", MASTER_KEY),
        ("CONNECT_INGEST_ADDR", "127.0.0.1:0"),
        ("CONNECT_CONSOLE_ADDR", "127.0.0.1:0"),
        ("CONNECT_METRICS_ADDR", "127.0.0.1:0"),
        // Far above the defaults: the disk of a busy machine may take that long, and few tests are about timeouts.
        ("CONNECT_STORE_TIMEOUT", "10s"),
        ("CONNECT_PUBLISH_TIMEOUT", "10s"),
        ("CONNECT_REPLY_TIMEOUT", "60s"),
        // Likewise: a worker that gets little time must not make ingest refuse what a test about something else sends.
        ("CONNECT_BACKLOG_TARGET", "60s"),
        ("RUST_LOG", "info"),
        // Tests write rows with old ids and times.
        ("CONNECT_RETENTION_DELIVERIES", "off"),
        ("CONNECT_RETENTION_IDEMPOTENCY", "off"),
        ("CONNECT_RETENTION_NOTIFICATIONS", "off"),
        ("CONNECT_RETENTION_AUDIT", "off"),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}
