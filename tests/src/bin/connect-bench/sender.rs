//! Requests to ingest over connections that are kept alive.

use crate::measure::{LoadStats, measure, timed};
use crate::traffic::{Event, Traffic, body};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::Duration;
use tests::raw::{RawConnection, RawResponse};
use tests::{ApiKey, HttpRequest, World, now};

/// The shape of a load: its traffic, the number of events in a batch, the number of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) traffic: Traffic,
    pub(crate) batch: usize,
    pub(crate) connections: usize,
}

impl Shape {
    /// Sends for `length`; each caller sends its next batch when it has the response to the previous one.
    pub(crate) async fn load(self, world: &World, length: Duration) -> LoadStats {
        let sender = Sender::new(world, &world.key);
        measure(self.connections, length, self.batch, async |_| {
            sender.events(&self.traffic.draw(self.batch)).await
        })
        .await
    }
}

/// A caller with a key and as many connections as it has requests at once, to all ingests in turn.
#[derive(Debug)]
pub(crate) struct Sender {
    addresses: Vec<SocketAddr>,
    pub(crate) key: ApiKey,
    opened: Cell<usize>,
    idle: RefCell<Vec<RawConnection>>,
}

impl Sender {
    pub(crate) fn new(world: &World, key: &ApiKey) -> Self {
        Self::to(world.ingests.iter().map(|ingest| ingest.http().address()).collect(), key)
    }

    pub(crate) fn to(addresses: Vec<SocketAddr>, key: &ApiKey) -> Self {
        Self { addresses, key: key.clone(), opened: Cell::default(), idle: RefCell::default() }
    }

    /// Sends a request and returns the response and its time in seconds.
    pub(crate) async fn exchange(&self, request: &HttpRequest) -> (RawResponse, f64) {
        let idle = self.idle.borrow_mut().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => {
                let number = self.opened.replace(self.opened.get() + 1);
                RawConnection::to(self.addresses[number % self.addresses.len()]).await
            }
        };
        let (response, took) = timed(async {
            connection.send_request(request).await;
            connection.response().await.expect("a response before the connection is closed")
        })
        .await;
        self.idle.borrow_mut().push(connection);
        (response, took)
    }

    /// Sends a request whose response must have this status, and returns the response and its time. As partners do, it
    /// resends what is refused with 503 after `Retry-After`; the time counts from the first request.
    pub(crate) async fn send(&self, request: &HttpRequest, status: u16) -> (RawResponse, f64) {
        let mut total = 0.0;
        for _ in 0..10 {
            let (response, took) = self.exchange(request).await;
            total += took;
            if response.status == status {
                return (response, total);
            }
            assert_eq!(response.status, 503, "{response:?}");
            let header = response.head.lines().find_map(|line| line.strip_prefix("retry-after: "));
            let wait = Duration::from_secs(header.and_then(|seconds| seconds.parse().ok()).unwrap_or(1));
            tokio::time::sleep(wait).await;
            total += wait.as_secs_f64();
        }
        panic!("a request was refused ten times with 503");
    }

    /// Sends events, none of which may fail, and returns the time in seconds.
    pub(crate) async fn events(&self, events: &[Event]) -> f64 {
        let request = self.key.events_at(now(), body(events, &self.key.tenant));
        let (response, took) = self.send(&request, 200).await;
        assert!(response.body.contains(r#""failed":0"#), "{response:?}");
        took
    }
}
