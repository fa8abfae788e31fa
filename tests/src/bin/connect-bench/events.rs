//! Sending events: callers with a connection each, and stretches of load.

use crate::caller::{Caller, Response};
use crate::figures::{Stretch, measure, timed};
use crate::prepare::api;
use crate::random::Random;
use crate::request;
use crate::traffic::{Event, Traffic, body};
use futures_util::future::join_all;
use std::net::SocketAddr;
use std::time::Duration;
use tests::{ApiKey, World};

/// Which load: its traffic, the events of a batch, the connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) traffic: Traffic,
    pub(crate) batch: usize,
    pub(crate) connections: usize,
}

/// A partner's connection.
#[derive(Debug)]
pub(crate) struct EventCaller {
    caller: Caller,
    key: ApiKey,
    pub(crate) random: Random,
}

impl EventCaller {
    pub(crate) async fn connect(world: &World, key: &ApiKey) -> Self {
        Self::connect_to(api(world), key).await
    }

    /// Connects to one of several ingests.
    pub(crate) async fn connect_to(address: SocketAddr, key: &ApiKey) -> Self {
        Self { caller: Caller::connect(address).await, key: key.clone(), random: Random::new() }
    }

    /// Sends events, each of which must be accepted, and gives the time from request to response in seconds.
    pub(crate) async fn send(&mut self, events: &[Event]) -> f64 {
        let (response, took) = self.request(events).await;
        let all = format!(r#"{{"accepted":{},"#, events.len());
        assert!(response.status == 200 && response.body.starts_with(&all), "{response:?}");
        took
    }

    /// Sends events and gives the response, whatever its status.
    pub(crate) async fn request(&mut self, events: &[Event]) -> (Response, f64) {
        let request = request::events(&self.key, &body(events, &self.key.tenant));
        timed(self.caller.send(&request)).await
    }
}

/// That many callers.
pub(crate) async fn connect_all(world: &World, key: &ApiKey, count: usize) -> Vec<EventCaller> {
    join_all((0..count).map(|_| EventCaller::connect(world, key))).await
}

/// Sends for that long; each caller sends its next batch when it has the response to the last one.
pub(crate) async fn load(world: &World, shape: Shape, length: Duration) -> Stretch {
    load_with(&mut connect_all(world, &world.key, shape.connections).await, shape, length).await
}

/// The same with callers that are connected.
pub(crate) async fn load_with(callers: &mut [EventCaller], shape: Shape, length: Duration) -> Stretch {
    measure(callers, length, shape.batch, async |caller: &mut EventCaller| {
        let events = shape.traffic.draw(shape.batch, &mut caller.random);
        caller.send(&events).await
    })
    .await
}
