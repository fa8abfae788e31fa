//! The environment of a test: a database, queues, a tenant with a key, and running programs.
//!
//! [`World::start`] starts a world for one test. [`World::shared`] joins the one that all others share, which costs a
//! hundredth of it: two ingests, two workers, a dispatcher and a console with default settings, which start with the first test that
//! joins and end with the process. There a test has a tenant of its own, with a unique slug. It still calls it `acme`, as it
//! calls others that it adds by their names: in events, arguments of `connectctl`, and quoted in SQL the name stands for the
//! slug, and in the output of `connectctl` the slug is replaced by the name. Elsewhere [`slug`] and `world.key.tenant` are the
//! slug. Queries of `world.database` see views of the tables, which have the rows of the test's tenants alone.
//!
//! [`WorldBuilder::join`] starts ingests with other settings there, for tests that need no more.
//!
//! Such a test is never alone: it looks at no depth of a queue, no metric and no log of the programs, ends none of them, changes
//! no schema or setting, and runs no command that concerns all tenants. The shared programs are not in its fields.

mod builder;
mod records;
mod seed;
mod shared;
mod tenants;

pub use builder::WorldBuilder;
pub(crate) use builder::common_settings;
pub use records::{UNREACHED_RECEIVER, text};
pub use seed::ALL_SCOPES;
pub(crate) use seed::{create_key, seed};
pub use shared::BREAK_UNLUCKY_EVENTS;
use shared::SharedUse;
pub(crate) use tenants::{ids, with_slugs};
pub use tenants::{slug, with_names};

use crate::connectctl::Connectctl;
use crate::database::{TestDatabase, new_name};
use crate::event::{Event, batch};
use crate::eventually::{MAX_WAIT, eventually};
use crate::http::{HttpClient, HttpResponse};
use crate::key::ApiKey;
use crate::program::Program;
use crate::proxy::Proxy;
use crate::queues::Queues;
use crate::statements::StatementRecorder;
use serde_json::Value;

/// A complete Connect for one test. Its parts are dropped in the order of the fields.
#[derive(Debug)]
pub struct World {
    /// The running copies of `connect-ingest`.
    pub ingests: Vec<Program>,
    /// The running copies of `connect-worker`.
    pub workers: Vec<Program>,
    /// The running copies of `connect-dispatcher`; none by default.
    pub dispatchers: Vec<Program>,
    /// The queues of the programs, with a unique prefix.
    pub queues: Queues,
    /// The database of the programs, which no other test uses.
    pub database: TestDatabase,
    /// `connectctl` with its settings.
    pub connectctl: Connectctl,
    /// A key of the tenant `acme`, with every scope.
    pub key: ApiKey,
    settings: Vec<(String, String)>,
    proxies: Option<Proxies>,
    shared: Option<SharedUse>,
}

/// The proxies between the programs and the servers.
#[derive(Debug)]
pub struct Proxies {
    /// The proxy in front of Postgres.
    pub postgres: Proxy,
    /// The proxy in front of RabbitMQ.
    pub broker: Proxy,
}

impl World {
    /// Starts a world with an ingest and a worker.
    pub async fn start() -> Self {
        Self::with().start().await
    }

    /// Joins the world that all tests share, with a tenant of its own.
    pub async fn shared() -> Self {
        shared::join().await
    }

    /// A builder for a world with other programs or settings.
    pub fn with() -> WorldBuilder {
        WorldBuilder::default()
    }

    /// Starts another ingest with the current settings.
    pub async fn add_ingest(&mut self) {
        self.ingests.push(Program::ingest(&self.settings).await);
    }

    /// Starts another worker with the current settings.
    pub async fn add_worker(&mut self) {
        self.workers.push(Program::worker(&self.settings).await);
    }

    /// Starts another dispatcher with the current settings.
    pub async fn add_dispatcher(&mut self) {
        self.dispatchers.push(Program::dispatcher(&self.settings).await);
    }

    /// Changes a setting of the programs that are started from now on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|(setting, _)| setting != name);
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Puts a recorder between the database and the programs that are started from now on.
    pub fn record_statements(&mut self) -> StatementRecorder {
        let recorder = StatementRecorder::in_front_of(self.database.url());
        self.set("DATABASE_URL", recorder.url());
        recorder
    }

    /// Uses another database for `connectctl` and the programs that are started from now on.
    pub fn use_database(&mut self, database: TestDatabase) {
        self.set("DATABASE_URL", database.url());
        self.database = database;
        self.connectctl = Connectctl::with(self.settings.clone());
    }

    /// Uses new queues for `connectctl` and the programs that are started from now on, as on an empty broker.
    pub fn use_empty_queues(&mut self) {
        let queues = Queues::new(self.queues.url(), new_name());
        self.set("CONNECT_QUEUE_PREFIX", queues.prefix());
        self.queues = queues;
        self.connectctl = Connectctl::with(self.settings.clone());
    }

    /// Ends all programs as in a crash.
    pub fn kill_programs(&mut self) {
        self.ingests.clear();
        self.workers.clear();
        self.dispatchers.clear();
    }

    /// Replaces the first ingest by a new one with the current settings.
    pub async fn restart_ingest(&mut self) {
        drop(self.ingests.remove(0));
        self.ingests.insert(0, Program::ingest(&self.settings).await);
    }

    /// The same after a setting was changed as by [`set`](Self::set).
    pub async fn restart_ingest_with(&mut self, name: &str, value: &str) {
        self.set(name, value);
        self.restart_ingest().await;
    }

    /// Kills the first dispatcher, unless it has ended, and starts another one with the current settings.
    pub async fn restart_dispatcher(&mut self) {
        drop(self.dispatchers.remove(0));
        self.add_dispatcher().await;
    }

    /// Waits until all programs are ready. A worker is ready when all of its lanes consume.
    pub async fn until_ready(&self) {
        for program in self.ingests.iter().chain(&self.workers).chain(&self.dispatchers) {
            program.until_ready().await;
        }
    }

    /// Drains and ends all workers: messages that they have replied to are acknowledged and not redelivered.
    pub async fn end_workers(&mut self) {
        for mut worker in self.workers.drain(..) {
            worker.terminate().await;
        }
    }

    /// Drains and ends all ingests, which write what they have counted.
    pub async fn end_ingests(&mut self) {
        for mut ingest in self.ingests.drain(..) {
            ingest.terminate().await;
        }
    }

    /// The settings that its programs run with.
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// The proxies between the programs and the servers, in a world built with [`WorldBuilder::through_proxies`].
    pub fn proxies(&self) -> &Proxies {
        self.proxies.as_ref().expect("a world with proxies")
    }

    /// A client of the first ingest, or of that of the shared world.
    pub fn http(&self) -> &HttpClient {
        self.all_http().first().expect("an ingest")
    }

    /// A client of each ingest.
    pub fn all_http(&self) -> Vec<&HttpClient> {
        let shared = self.shared.iter().flat_map(|shared| &shared.ingests);
        self.ingests.iter().map(Program::http).chain(shared).collect()
    }

    /// A client of the console of the shared world.
    pub fn console(&self) -> &HttpClient {
        &self.shared.as_ref().expect("the shared world").console
    }

    /// Sends events as one signed batch.
    pub async fn send(&self, events: &[Event]) -> HttpResponse {
        self.http().send(&self.key.events(batch(events))).await
    }

    /// Sends a batch that must be processed, and returns its results.
    pub async fn results(&self, events: &[Event]) -> Vec<Value> {
        self.send(events).await.assert_status(200).json()["results"].as_array().expect("results").clone()
    }

    /// Sends one event that must be processed, and returns its result.
    pub async fn result(&self, event: Event) -> Value {
        let mut results = self.results(&[event]).await;
        assert_eq!(results.len(), 1, "{results:?}");
        results.remove(0)
    }

    /// Sends one event that must be accepted, and returns its result.
    pub async fn accept(&self, event: Event) -> Value {
        let result = self.result(event).await;
        assert_eq!(result["status"], "accepted", "{result}");
        result
    }

    /// Retries one event until it succeeds, as its partner does, and returns its result: `accepted`, or `duplicate` if an
    /// earlier attempt was applied although its response was 503. For worlds whose timeouts a busy machine exceeds.
    pub async fn accept_with_retries(&self, event: Event) -> Value {
        let mut body = batch(std::slice::from_ref(&event));
        let result = eventually("the event is processed", MAX_WAIT, async || {
            let response = self.http().send(&self.key.events(body.clone())).await;
            // A body can be signed once for each second, and an outage has more tries than seconds.
            body.push(b' ');
            match response.status {
                200 => Ok(response.json()["results"][0].clone()),
                503 => Err(format!("{response:?}")),
                status => panic!("{status}: {response:?}"),
            }
        })
        .await;
        assert!(["accepted", "duplicate"].contains(&text(&result["status"])), "{result}");
        result
    }

    /// Creates another tenant with a key that has every scope.
    pub async fn add_tenant(&self, slug: &str) -> ApiKey {
        if self.shared.is_some() {
            let key = tenants::create(&self.database.connect().await, slug).await;
            self.database.forget_idle();
            return key;
        }
        self.connectctl.json(&["tenant", "create", "--slug", slug, "--name", slug]).await;
        create_key(&self.connectctl, slug, ALL_SCOPES).await
    }

    /// Creates another key of the tenant `acme`.
    pub async fn add_key(&self, scopes: &str) -> ApiKey {
        self.add_key_of("acme", scopes).await
    }

    /// Creates another key of a tenant.
    pub async fn add_key_of(&self, tenant: &str, scopes: &str) -> ApiKey {
        if self.shared.is_some() {
            return tenants::create_key(&self.database.connect().await, tenant, scopes).await;
        }
        create_key(&self.connectctl, tenant, scopes).await
    }
}
