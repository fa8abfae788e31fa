//! The steady load: events, records writes and reads, each at a rate of its own.

use crate::open_loop::{Idle, steady};
use crate::prepare::api;
use crate::random::Random;
use crate::request;
use crate::sections::reads::any_client;
use crate::sections::writes::create_client;
use crate::traffic::{Traffic, body};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;
use tests::{ApiKey, RECORDS, World};
use uuid::Uuid;

/// The load in words.
pub(super) const COMPOSITION: &str = "200 events/s of the mix in batches of 10, 20 POST /clients/s, 50 GET /clients/{id}/s; webhooks delivered";
/// Batches a second, and the events of each.
const BATCHES: f64 = 20.0;
const BATCH: usize = 10;
const WRITES: f64 = 20.0;
const READS: f64 = 50.0;
/// Connections of each kind of request that are open when a part begins.
const CONNECTIONS: usize = 4;

/// What a part of the run gave.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) events: usize,
    pub(super) writes: usize,
    pub(super) reads: usize,
    pub(super) deliveries: usize,
    /// Requests answered 503 or 429.
    pub(super) refused: usize,
    /// Requests that had another unexpected response, or none.
    pub(super) failed: usize,
    pub(super) first_failure: Option<String>,
}

/// How one request ended.
enum Outcome {
    Accepted,
    Refused,
    Failed(String),
}

/// Where and what it sends.
pub(super) struct Load {
    address: SocketAddr,
    key: ApiKey,
    client: Uuid,
    random: RefCell<Random>,
}

impl Load {
    /// For a world whose people are known.
    pub(super) async fn new(world: &World) -> Self {
        let random = RefCell::new(Random::new());
        Self { address: api(world), key: world.key.clone(), client: any_client(world).await, random }
    }

    /// Sends for that long.
    pub(super) async fn run(&self, length: Duration) -> Counts {
        let (events, writes, reads) = futures_util::join!(
            self.send(BATCHES, length, 200, || self.batch()),
            self.send(WRITES, length, 201, || self.write()),
            self.send(READS, length, 200, || self.read()),
        );
        let mut counts = Counts::default();
        counts.events = BATCH * counts.add(events);
        counts.writes = counts.add(writes);
        counts.reads = counts.add(reads);
        counts
    }

    /// Sends requests at a rate. Connections are new for each part: those that were idle for long may be closed.
    async fn send(
        &self,
        rate: f64,
        length: Duration,
        expected: u16,
        request: impl Fn() -> Vec<u8>,
    ) -> Vec<Outcome> {
        let idle = Idle::connect(self.address, CONNECTIONS).await;
        let once = async || {
            let request = request();
            let exchange = async {
                let mut caller = idle.try_take().await?;
                let response = caller.try_send(&request).await?;
                idle.put_back(caller);
                Ok(response)
            };
            match exchange.await {
                Ok(response) if response.status == expected => Outcome::Accepted,
                Ok(response) if matches!(response.status, 429 | 503) => Outcome::Refused,
                Ok(response) => Outcome::Failed(format!("{response:?}")),
                Err(error) => Outcome::Failed(error),
            }
        };
        steady(rate, length, once).await
    }

    fn batch(&self) -> Vec<u8> {
        let events = Traffic::Mix.draw(BATCH, &mut self.random.borrow_mut());
        request::events(&self.key, &body(&events, &self.key.tenant))
    }

    fn write(&self) -> Vec<u8> {
        create_client(&self.key, &self.random.borrow_mut().uuid().to_string())
    }

    /// Each differs in its query, so that its signature does.
    fn read(&self) -> Vec<u8> {
        let target = format!("{RECORDS}/clients/{}?n={}", self.client, self.random.borrow_mut().uuid());
        request::records(&self.key, "GET", &target, "", None)
    }
}

impl Counts {
    /// Counts what was refused and what failed. Gives how many were accepted.
    fn add(&mut self, outcomes: Vec<Outcome>) -> usize {
        let mut accepted = 0;
        for outcome in outcomes {
            match outcome {
                Outcome::Accepted => accepted += 1,
                Outcome::Refused => self.refused += 1,
                Outcome::Failed(failure) => {
                    self.failed += 1;
                    self.first_failure.get_or_insert(failure);
                }
            }
        }
        accepted
    }
}
