//! Bursts of tenants: callers send full batches without a pause, and either wait for each response or hang up.

use crate::background_load::{BackgroundLoad, StopSignal};
use crate::caller::{Caller, Response};
use crate::random::Random;
use crate::request;
use crate::traffic::{Traffic, body};
use futures_util::future::join_all;
use std::net::SocketAddr;
use std::time::Duration;
use tests::ApiKey;
use tokio::time::{Instant, sleep_until, timeout};

/// Events of each batch.
const BATCH: usize = 100;
/// Time after which a caller hangs up. It starts again at this interval, also after an earlier response.
pub(super) const HANG_UP: Duration = Duration::from_millis(150);
/// Wait of a caller after a 503, whatever `Retry-After` says.
pub(super) const AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// What a caller does after it has sent a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterSending {
    /// Waits for the response and sends the next batch on the same connection.
    Waits,
    /// Closes the connection after [`HANG_UP`] and starts again with another one.
    HangsUp,
}

/// A burst of several tenants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    pub(super) callers: usize,
    pub(super) tenants: usize,
    pub(super) after_sending: AfterSending,
    /// What the batches consist of.
    pub(super) traffic: Traffic,
}

/// The responses to the callers of a burst, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BurstOutcome {
    pub(super) accepted: usize,
    pub(super) overloaded: usize,
    pub(super) other: usize,
    pub(super) hung_up: usize,
    /// Connections that were refused, or that the server closed.
    pub(super) broken: usize,
    /// Smallest and largest `Retry-After`.
    pub(super) retry_after: Option<(u32, u32)>,
}

impl BurstOutcome {
    /// The sum of both.
    pub(super) fn plus(self, other: Self) -> Self {
        let all = [self.retry_after, other.retry_after].into_iter().flatten();
        Self {
            accepted: self.accepted + other.accepted,
            overloaded: self.overloaded + other.overloaded,
            other: self.other + other.other,
            hung_up: self.hung_up + other.hung_up,
            broken: self.broken + other.broken,
            retry_after: all.reduce(|(least, most), (low, high)| (least.min(low), most.max(high))),
        }
    }

    fn count(&mut self, response: &Response) {
        match response.status {
            200 => self.accepted += 1,
            503 => self.overloaded += 1,
            _ => self.other += 1,
        }
        if let Some(seconds) = response.retry_after {
            let (least, most) = self.retry_after.unwrap_or((seconds, seconds));
            self.retry_after = Some((least.min(seconds), most.max(seconds)));
        }
    }
}

impl Burst {
    /// Starts the burst of the first tenants of `keys`, whose callers use the addresses in turn.
    pub(super) fn start(self, addresses: &[SocketAddr], keys: &[ApiKey]) -> BackgroundLoad<BurstOutcome> {
        let (addresses, keys) = (addresses.to_vec(), keys[..self.tenants].to_vec());
        BackgroundLoad::start(move |stop| async move {
            let callers = (0..self.callers).map(|number| {
                let sender = BurstCaller {
                    // The callers of each tenant use all addresses.
                    address: addresses[number / keys.len() % addresses.len()],
                    key: keys[number % keys.len()].clone(),
                    traffic: self.traffic,
                    random: Random::new(),
                };
                sender.send_until(self.after_sending, stop.clone())
            });
            join_all(callers).await.into_iter().fold(BurstOutcome::default(), BurstOutcome::plus)
        })
    }
}

/// A caller of a burst with its key and address.
struct BurstCaller {
    address: SocketAddr,
    key: ApiKey,
    traffic: Traffic,
    random: Random,
}

impl BurstCaller {
    async fn send_until(mut self, after_sending: AfterSending, stop: StopSignal) -> BurstOutcome {
        let mut outcome = BurstOutcome::default();
        let mut until_stopped = stop.clone();
        let sending = async {
            while !stop.is_stopped() {
                match after_sending {
                    AfterSending::Waits => self.wait_for_responses(&mut outcome, &stop).await,
                    AfterSending::HangsUp => self.hang_up(&mut outcome).await,
                }
            }
        };
        tokio::select! {
            () = sending => {}
            () = until_stopped.stopped() => {}
        }
        outcome
    }

    fn batch(&mut self) -> Vec<u8> {
        let events = self.traffic.draw(BATCH, &mut self.random);
        request::events(&self.key, &body(&events, &self.key.tenant))
    }

    /// Sends on one connection for as long as it lasts.
    async fn wait_for_responses(&mut self, outcome: &mut BurstOutcome, stop: &StopSignal) {
        let Ok(mut caller) = Caller::try_connect(self.address).await else {
            outcome.broken += 1;
            return tokio::time::sleep(AFTER_REFUSAL).await;
        };
        let mut request = self.batch();
        while !stop.is_stopped() {
            let Ok(response) = caller.try_send(&request).await else {
                outcome.broken += 1;
                return tokio::time::sleep(AFTER_REFUSAL).await;
            };
            outcome.count(&response);
            if response.status == 503 {
                tokio::time::sleep(AFTER_REFUSAL).await;
            } else {
                request = self.batch();
            }
        }
    }

    async fn hang_up(&mut self, outcome: &mut BurstOutcome) {
        let begun = Instant::now();
        let request = self.batch();
        let exchange = async { Caller::try_connect(self.address).await?.try_send(&request).await };
        match timeout(HANG_UP, exchange).await {
            Ok(Ok(response)) => outcome.count(&response),
            Ok(Err(_)) => outcome.broken += 1,
            Err(_) => outcome.hung_up += 1,
        }
        sleep_until(begun + HANG_UP).await;
    }
}
