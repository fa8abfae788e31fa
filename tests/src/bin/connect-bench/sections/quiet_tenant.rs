//! The quiet tenant: single events and records writes at a steady rate, whatever others do. Requests start at fixed times,
//! so that the whole time of a slow one is measured.

use super::writes::create_client;
use crate::figures::{millis, percentile, timed};
use crate::open_loop::{IdleConnections, steady};
use crate::random::Random;
use crate::request;
use crate::traffic::{Traffic, body};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;
use tests::ApiKey;

/// Events per second, and as many writes.
pub(super) const RATE: f64 = 20.0;
/// Connections that are opened before the load.
const CONNECTIONS: usize = 4;

/// Response times of the requests that succeeded, and how many did not.
#[derive(Debug, Default)]
pub(super) struct ResponseTimes {
    seconds: Vec<f64>,
    failed: Vec<String>,
}

/// One kind of request of the quiet tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    Event,
    Write,
}

/// Sends single events to the first address, and writes to the last one, for `length`. Returns the times of both.
pub(super) async fn measure(
    addresses: &[SocketAddr],
    key: &ApiKey,
    length: Duration,
) -> (ResponseTimes, ResponseTimes) {
    let (first, last) = (addresses[0], addresses[addresses.len() - 1]);
    futures_util::join!(
        send(first, key, RequestKind::Event, length),
        send(last, key, RequestKind::Write, length)
    )
}

async fn send(address: SocketAddr, key: &ApiKey, kind: RequestKind, length: Duration) -> ResponseTimes {
    let (idle, random) = (IdleConnections::connect(address, CONNECTIONS).await, RefCell::new(Random::new()));
    let once = async || {
        let (request, expected) = match kind {
            RequestKind::Event => {
                let events = Traffic::Identified.draw(1, &mut random.borrow_mut());
                (request::events(key, &body(&events, &key.tenant)), 200)
            }
            RequestKind::Write => (create_client(key, &random.borrow_mut().uuid().to_string()), 201),
        };
        let exchange = async {
            let mut caller = idle.try_take().await?;
            let response = caller.try_send(&request).await?;
            idle.put_back(caller);
            if response.status == expected { Ok(()) } else { Err(format!("{response:?}")) }
        };
        let (result, took) = timed(exchange).await;
        result.map(|()| took)
    };
    let mut times = ResponseTimes::default();
    for result in steady(RATE, length, once).await {
        match result {
            Ok(seconds) => times.seconds.push(seconds),
            Err(failure) => times.failed.push(failure),
        }
    }
    times
}

impl ResponseTimes {
    /// Adds those of another round.
    pub(super) fn add(&mut self, other: Self) {
        self.seconds.extend(other.seconds);
        self.failed.extend(other.failed);
        self.seconds.sort_unstable_by(f64::total_cmp);
    }

    /// The 99th percentile in seconds.
    pub(super) fn p99(&self) -> f64 {
        percentile(&self.seconds, 0.99)
    }

    /// Number of responses other than 200 and 201, and of missing responses.
    pub(super) const fn failures(&self) -> usize {
        self.failed.len()
    }

    /// The first failure, as text.
    pub(super) fn first_failure(&self) -> Option<&str> {
        self.failed.first().map(String::as_str)
    }

    /// p50, p99, longest, and the number of failures, in columns.
    pub(super) fn columns(&self) -> String {
        let longest = self.seconds.last().copied().unwrap_or(f64::NAN);
        format!(
            "{:>9} {:>9} {:>9} {:>7}",
            millis(percentile(&self.seconds, 0.5)),
            millis(self.p99()),
            millis(longest),
            self.failures()
        )
    }

    /// The titles of [`columns`](Self::columns).
    pub(super) fn head() -> String {
        format!("{:>9} {:>9} {:>9} {:>7}", "p50", "p99", "max", "failed")
    }
}
