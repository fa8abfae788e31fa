//! Everything a test needs: a database, queues, an agency with a key, and running programs.

mod builder;
mod looks;
mod seed;

pub use builder::WorldBuilder;
pub use looks::text;
pub use seed::ALL_SCOPES;
pub(crate) use seed::seed;

use crate::connectctl::Connectctl;
use crate::database::TestDatabase;
use crate::event::{Event, batch};
use crate::eventually::{PATIENCE, eventually};
use crate::http::{Answer, Http};
use crate::key::ApiKey;
use crate::program::Program;
use crate::proxy::Proxy;
use crate::queues::Queues;
use seed::create_key;
use serde_json::Value;

/// A test's own Connect. What it consists of ends in the order of the fields.
#[derive(Debug)]
pub struct World {
    /// `connect-ingest`s.
    pub ingests: Vec<Program>,
    /// `connect-worker`s.
    pub workers: Vec<Program>,
    /// `connect-dispatcher`s; none unless asked for.
    pub dispatchers: Vec<Program>,
    /// Its queues.
    pub queues: Queues,
    /// Its database.
    pub database: TestDatabase,
    /// `connectctl` with its settings.
    pub connectctl: Connectctl,
    /// A key of the agency `acme`, with every scope.
    pub key: ApiKey,
    settings: Vec<(String, String)>,
    proxies: Option<Proxies>,
}

/// What stands between the programs and the servers.
#[derive(Debug)]
pub struct Proxies {
    /// Before Postgres.
    pub postgres: Proxy,
    /// Before RabbitMQ.
    pub broker: Proxy,
}

impl World {
    /// An ordinary one: an ingest and a worker.
    pub async fn start() -> Self {
        Self::with().start().await
    }

    /// One that differs.
    pub fn with() -> WorldBuilder {
        WorldBuilder::default()
    }

    /// Starts another ingest.
    pub async fn add_ingest(&mut self) {
        self.ingests.push(Program::ingest(&self.settings).await);
    }

    /// Starts another worker.
    pub async fn add_worker(&mut self) {
        self.workers.push(Program::worker(&self.settings).await);
    }

    /// Starts another dispatcher.
    pub async fn add_dispatcher(&mut self) {
        self.dispatchers.push(Program::dispatcher(&self.settings).await);
    }

    /// Changes a setting of the programs that are started from now on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|(setting, _)| setting != name);
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Replaces the first ingest by a new one, with the settings of now.
    pub async fn restart_ingest(&mut self) {
        drop(self.ingests.remove(0));
        self.ingests.insert(0, Program::ingest(&self.settings).await);
    }

    /// Waits until all of its programs are ready; of a worker, all lanes consume then.
    pub async fn until_ready(&self) {
        for program in self.ingests.iter().chain(&self.workers).chain(&self.dispatchers) {
            program.until_ready().await;
        }
    }

    /// Ends all workers in order: what they have answered is acknowledged, and nothing of it is delivered again.
    pub async fn end_workers(&mut self) {
        for mut worker in self.workers.drain(..) {
            worker.terminate().await;
        }
    }

    /// The settings that its programs run with.
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// What stands between its programs and the servers, in a world made with [`WorldBuilder::through_proxies`].
    pub fn proxies(&self) -> &Proxies {
        self.proxies.as_ref().expect("a world with proxies")
    }

    /// A client of the first ingest.
    pub fn http(&self) -> &Http {
        self.ingests.first().expect("an ingest").http()
    }

    /// Sends events as one signed batch.
    pub async fn send(&self, events: &[Event]) -> Answer {
        self.http().send(&self.key.events(batch(events))).await
    }

    /// Sends a batch that must be processed, and gives its results.
    pub async fn results(&self, events: &[Event]) -> Vec<Value> {
        let answer = self.send(events).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["results"].as_array().expect("results").clone()
    }

    /// Sends one event that must be processed, and gives its result.
    pub async fn result(&self, event: Event) -> Value {
        let mut results = self.results(&[event]).await;
        assert_eq!(results.len(), 1, "{results:?}");
        results.remove(0)
    }

    /// Sends one event that must be accepted, and gives its result.
    pub async fn accept(&self, event: Event) -> Value {
        let result = self.result(event).await;
        assert_eq!(result["status"], "accepted", "{result}");
        result
    }

    /// Sends one event until it is answered with success, as its partner does, and gives its result: `accepted`, or
    /// `duplicate` when a try that was answered 503 was applied. For worlds whose timeouts a busy machine exceeds.
    pub async fn accept_in_time(&self, event: Event) -> Value {
        let result = eventually("the event is processed", PATIENCE, async || {
            let answer = self.send(std::slice::from_ref(&event)).await;
            match answer.status {
                200 => Ok(answer.json()["results"][0].clone()),
                503 => Err(format!("{answer:?}")),
                status => panic!("{status}: {answer:?}"),
            }
        })
        .await;
        assert!(["accepted", "duplicate"].contains(&text(&result["status"])), "{result}");
        result
    }

    /// Makes another agency with a key that has every scope.
    pub async fn add_tenant(&self, slug: &str) -> ApiKey {
        self.connectctl.json(&["tenant", "create", "--slug", slug, "--name", slug]).await;
        create_key(&self.connectctl, slug, ALL_SCOPES).await
    }

    /// Makes another key of `acme`.
    pub async fn add_key(&self, scopes: &str) -> ApiKey {
        create_key(&self.connectctl, "acme", scopes).await
    }
}
