//! The quiet agency: single events and records writes at a steady rate, whatever others do. Each request starts at its
//! time, so that all of a slow one's wait is seen.

use super::writes::create_client;
use crate::figures::{millis, percentile, timed};
use crate::open_loop::{Idle, steady};
use crate::random::Random;
use crate::request;
use crate::traffic::{Traffic, body};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;
use tests::ApiKey;

/// Events, and as many writes, a second.
pub(super) const RATE: f64 = 20.0;
/// Connections that are open before it begins.
const CONNECTIONS: usize = 4;

/// Response times of the requests that succeeded, and how many did not.
#[derive(Debug, Default)]
pub(super) struct ResponseTimes {
    seconds: Vec<f64>,
    failed: Vec<String>,
}

/// One kind of request of the quiet agency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Event,
    Write,
}

/// Sends single events to the first address, and writes to the last one, for that long. Gives the times of both.
pub(super) async fn measure(
    addresses: &[SocketAddr],
    key: &ApiKey,
    length: Duration,
) -> (ResponseTimes, ResponseTimes) {
    let (first, last) = (addresses[0], addresses[addresses.len() - 1]);
    futures_util::join!(send(first, key, Kind::Event, length), send(last, key, Kind::Write, length))
}

async fn send(address: SocketAddr, key: &ApiKey, kind: Kind, length: Duration) -> ResponseTimes {
    let (idle, random) = (Idle::connect(address, CONNECTIONS).await, RefCell::new(Random::new()));
    let once = async || {
        let (request, expected) = match kind {
            Kind::Event => {
                let events = Traffic::Identified.draw(1, &mut random.borrow_mut());
                (request::events(key, &body(&events, &key.tenant)), 200)
            }
            Kind::Write => (create_client(key, &random.borrow_mut().uuid().to_string()), 201),
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

    /// Seconds that all but one in a hundred did not exceed.
    pub(super) fn p99(&self) -> f64 {
        percentile(&self.seconds, 0.99)
    }

    /// How many were not answered 200 or 201.
    pub(super) const fn failures(&self) -> usize {
        self.failed.len()
    }

    /// The first of them.
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

    /// The names of [`columns`](Self::columns).
    pub(super) fn head() -> String {
        format!("{:>9} {:>9} {:>9} {:>7}", "p50", "p99", "max", "failed")
    }
}
