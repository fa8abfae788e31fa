//! A caller of the API, who retries as partners do.

use super::oracle::Run;
use super::stack::Stack;
use crate::fuzz::random::Random;
use crate::http::{HttpClient, HttpRequest, HttpResponse};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Maximum time that a response may take. Longer than the programs wait for each other.
const RESPONSE: Duration = Duration::from_secs(12);
/// Milliseconds before a retry, from and to.
const RETRY: (u64, u64) = (50, 400);

/// Whether a request is retried until it is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retries {
    UntilConfirmed,
    Never,
}

/// One caller. Everything it does depends on the seed, its number, and the number of the operation.
pub(super) struct Caller<'r> {
    pub(super) stack: &'r Stack,
    pub(super) run: &'r Run,
    pub(super) number: u64,
    clients: HashMap<SocketAddr, HttpClient>,
}

impl<'r> Caller<'r> {
    pub(super) fn new(stack: &'r Stack, run: &'r Run, number: u64) -> Self {
        Self { stack, run, number, clients: HashMap::new() }
    }

    pub(super) fn random(&self, operation: u64) -> Random {
        let mut seed = Random::new(self.run.seed ^ (self.number << 40));
        Random::new(seed.next() ^ operation.wrapping_mul(0x9e37_79b9))
    }

    /// Sends a request to any ingest, signed again for each try, until it gets another status than 503. `None` if it was not
    /// confirmed: it may have had an effect.
    pub(super) async fn send(
        &mut self, random: &mut Random, retries: Retries, request: impl Fn() -> HttpRequest,
    ) -> Option<HttpResponse> {
        loop {
            let ingests = self.stack.ingests();
            if !ingests.is_empty() {
                let address = *random.one_of(&ingests);
                match self.try_send(address, &request()).await {
                    Some(response) if response.status == 503 => {
                        self.run.totals.unavailable.fetch_add(1, Ordering::Relaxed);
                    }
                    Some(response) => return Some(response),
                    None => drop(self.run.totals.failed_connections.fetch_add(1, Ordering::Relaxed)),
                }
                if retries == Retries::Never {
                    return None;
                }
            }
            if self.run.retries_ended() {
                return None;
            }
            sleep(Duration::from_millis(RETRY.0 + random.next() % (RETRY.1 - RETRY.0))).await;
        }
    }

    async fn try_send(&mut self, address: SocketAddr, request: &HttpRequest) -> Option<HttpResponse> {
        let begun = Instant::now();
        // Not checked against the API description: the ingest may end meanwhile.
        let client = self.clients.entry(address).or_insert_with(|| HttpClient::for_other_server(address));
        let Ok(Ok(response)) = timeout(RESPONSE, client.try_send(request)).await else {
            self.clients.remove(&address);
            return None;
        };
        // Reads succeed without the broker.
        if (200..300).contains(&response.status) && request.method != "GET" {
            self.run.note_success(begun);
        }
        Some(response)
    }

    /// Notes a response whose status is not what the operation must get.
    pub(super) fn unexpected(&self, what: &str, response: &HttpResponse) {
        let body = String::from_utf8_lossy(&response.body);
        self.run.oracle().add_violation(format!("{what} got {}: {body}", response.status));
    }
}
