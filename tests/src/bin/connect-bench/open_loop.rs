//! A steady load: requests start at fixed times, whether or not earlier ones have their response, each on an idle
//! connection. A slow response therefore delays no later request, and its whole time is measured.

use crate::caller::Caller;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Idle connections to one address.
#[derive(Debug)]
pub(crate) struct IdleConnections {
    address: SocketAddr,
    callers: RefCell<Vec<Caller>>,
}

impl IdleConnections {
    /// Opens `count` connections.
    pub(crate) async fn connect(address: SocketAddr, count: usize) -> Self {
        let mut callers = Vec::new();
        for _ in 0..count {
            callers.push(Caller::connect(address).await);
        }
        Self { address, callers: RefCell::new(callers) }
    }

    /// An idle connection; a new one when all are busy.
    pub(crate) async fn take(&self) -> Caller {
        self.try_take().await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`take`](Self::take), for a connection that may be refused.
    pub(crate) async fn try_take(&self) -> Result<Caller, String> {
        let idle = self.callers.borrow_mut().pop();
        match idle {
            Some(caller) => Ok(caller),
            None => Caller::try_connect(self.address).await,
        }
    }

    pub(crate) fn put_back(&self, caller: Caller) {
        self.callers.borrow_mut().push(caller);
    }
}

/// Starts `once` `rate` times a second for `length` and returns all results.
pub(crate) async fn steady<T>(rate: f64, length: Duration, once: impl AsyncFn() -> T) -> Vec<T> {
    let mut ticks = interval(Duration::from_secs_f64(1.0 / rate));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut running, mut done) = (FuturesUnordered::new(), Vec::new());
    let end = Instant::now() + length;
    loop {
        tokio::select! {
            at = ticks.tick() => {
                if at >= end {
                    break;
                }
                running.push(once());
            }
            Some(one) = running.next() => done.push(one),
        }
    }
    while let Some(one) = running.next().await {
        done.push(one);
    }
    done
}
