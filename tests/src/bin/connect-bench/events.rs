//! Sending events: callers with one connection each, and measured loads.

use crate::caller::{Caller, Response};
use crate::figures::{LoadStats, measure, timed};
use crate::prepare::api_address;
use crate::random::Random;
use crate::request;
use crate::traffic::{Event, Traffic, body};
use futures_util::future::join_all;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tests::{ApiKey, World};

/// Times that a batch is sent before the benchmark gives up.
const RETRIES_MAX: u32 = 10;

/// Batches that were refused with 503 and resent.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Takes the number of batches that were refused with 503 and resent since the last call.
pub(crate) fn take_refused() -> u64 {
    REFUSED.swap(0, Ordering::Relaxed)
}

/// The shape of a load: its traffic, the number of events in a batch, the number of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadShape {
    pub(crate) traffic: Traffic,
    pub(crate) batch: usize,
    pub(crate) connections: usize,
}

/// A connection that sends events with a partner's key.
#[derive(Debug)]
pub(crate) struct EventCaller {
    caller: Caller,
    key: ApiKey,
    pub(crate) random: Random,
}

impl EventCaller {
    pub(crate) async fn connect(world: &World, key: &ApiKey) -> Self {
        Self::connect_to(api_address(world), key).await
    }

    /// Connects to one of several ingests.
    pub(crate) async fn connect_to(address: SocketAddr, key: &ApiKey) -> Self {
        Self { caller: Caller::connect(address).await, key: key.clone(), random: Random::new() }
    }

    /// Sends events, each of which must be accepted, and returns the time from request to response in seconds. As partners
    /// do, it resends what is refused with 503 after `Retry-After`; the time counts from the first request.
    pub(crate) async fn send(&mut self, events: &[Event]) -> f64 {
        let request = request::events(&self.key, &body(events, &self.key.tenant));
        let started = Instant::now();
        for _ in 0..RETRIES_MAX {
            let response = self.caller.send(&request).await;
            if let (503, Some(seconds)) = (response.status, response.retry_after) {
                REFUSED.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(seconds.into())).await;
                continue;
            }
            let all = format!(r#"{{"accepted":{},"#, events.len());
            assert!(response.status == 200 && response.body.starts_with(&all), "{response:?}");
            return started.elapsed().as_secs_f64();
        }
        panic!("a batch was refused {RETRIES_MAX} times with 503");
    }

    /// Sends events and returns the response, whatever its status.
    pub(crate) async fn request(&mut self, events: &[Event]) -> (Response, f64) {
        let request = request::events(&self.key, &body(events, &self.key.tenant));
        timed(self.caller.send(&request)).await
    }
}

/// Opens `count` connections with the same key.
pub(crate) async fn connect_all(world: &World, key: &ApiKey, count: usize) -> Vec<EventCaller> {
    join_all((0..count).map(|_| EventCaller::connect(world, key))).await
}

/// Sends for `length`; each caller sends its next batch when it has the response to the previous one.
pub(crate) async fn load(world: &World, shape: LoadShape, length: Duration) -> LoadStats {
    load_with(&mut connect_all(world, &world.key, shape.connections).await, shape, length).await
}

/// Like [`load`], with callers that are connected already.
pub(crate) async fn load_with(callers: &mut [EventCaller], shape: LoadShape, length: Duration) -> LoadStats {
    measure(callers, length, shape.batch, async |caller: &mut EventCaller| {
        let events = shape.traffic.draw(shape.batch, &mut caller.random);
        caller.send(&events).await
    })
    .await
}
