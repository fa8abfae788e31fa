//! The steady load: events, records writes and reads, each at a rate of its own.

use crate::open_loop::{IdleConnections, steady};
use crate::prepare::api_address;
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

/// The composition of the load as text.
pub(super) const COMPOSITION: &str = "200 events/s of the mix in batches of 10, 20 POST /clients/s, 50 GET /clients/{id}/s; webhooks delivered";
/// Batches a second, and the events of each.
const BATCHES: f64 = 20.0;
const BATCH: usize = 10;
const WRITES: f64 = 20.0;
const READS: f64 = 50.0;
/// Connections of each kind of request that are open when a part begins.
const CONNECTIONS: usize = 4;

/// The counts of a part of the run.
#[derive(Debug, Default)]
pub(super) struct LoadCounts {
    pub(super) events: usize,
    pub(super) writes: usize,
    pub(super) reads: usize,
    pub(super) deliveries: usize,
    /// Requests that were refused with 503 or 429.
    pub(super) refused: usize,
    /// Requests with any other unexpected response, or none.
    pub(super) failed: usize,
    pub(super) first_failure: Option<String>,
}

/// How one request ended.
enum RequestOutcome {
    Accepted,
    Refused,
    Failed(String),
}

/// The sender of the steady load.
pub(super) struct SteadyLoad {
    address: SocketAddr,
    key: ApiKey,
    client: Uuid,
    random: RefCell<Random>,
}

impl SteadyLoad {
    /// A load for a world whose people exist already.
    pub(super) async fn new(world: &World) -> Self {
        let random = RefCell::new(Random::new());
        Self { address: api_address(world), key: world.key.clone(), client: any_client(world).await, random }
    }

    /// Sends for `length`.
    pub(super) async fn run(&self, length: Duration) -> LoadCounts {
        let (events, writes, reads) = futures_util::join!(
            self.send(BATCHES, length, 200, || self.batch()),
            self.send(WRITES, length, 201, || self.write()),
            self.send(READS, length, 200, || self.read()),
        );
        let mut counts = LoadCounts::default();
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
    ) -> Vec<RequestOutcome> {
        let idle = IdleConnections::connect(self.address, CONNECTIONS).await;
        let once = async || {
            let request = request();
            let exchange = async {
                let mut caller = idle.try_take().await?;
                let response = caller.try_send(&request).await?;
                idle.put_back(caller);
                Ok(response)
            };
            match exchange.await {
                Ok(response) if response.status == expected => RequestOutcome::Accepted,
                Ok(response) if matches!(response.status, 429 | 503) => RequestOutcome::Refused,
                Ok(response) => RequestOutcome::Failed(format!("{response:?}")),
                Err(error) => RequestOutcome::Failed(error),
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

    /// Each request has another query, so that no two signatures are equal.
    fn read(&self) -> Vec<u8> {
        let target = format!("{RECORDS}/clients/{}?n={}", self.client, self.random.borrow_mut().uuid());
        request::records(&self.key, "GET", &target, "", None)
    }
}

impl LoadCounts {
    /// Counts refused and failed requests. Returns the number of accepted ones.
    fn add(&mut self, outcomes: Vec<RequestOutcome>) -> usize {
        let mut accepted = 0;
        for outcome in outcomes {
            match outcome {
                RequestOutcome::Accepted => accepted += 1,
                RequestOutcome::Refused => self.refused += 1,
                RequestOutcome::Failed(failure) => {
                    self.failed += 1;
                    self.first_failure.get_or_insert(failure);
                }
            }
        }
        accepted
    }
}
