//! A receiver of webhooks that fails at random, and remembers what it received.

use crate::fuzz::random::Random;
use bytes::Bytes;
use common::signature::verify_webhook;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// Longer than `CONNECT_WEBHOOK_TIMEOUT` of the run.
const TOO_LATE: Duration = Duration::from_millis(1_500);

/// A subscription of the run.
#[derive(Clone, Debug)]
pub(super) struct Subscribed {
    pub(super) tenant: usize,
    pub(super) path: String,
    /// Events caused by this key are not sent to it.
    pub(super) key: Option<String>,
    pub(super) secret: String,
}

/// All requests for one event and one subscription.
#[derive(Clone, Debug)]
pub(super) struct Receipt {
    /// `X-Connect-Delivery` of the first request.
    pub(super) delivery: String,
    /// Hash of its body.
    body: u64,
    pub(super) requests: u32,
    /// Those that were responded to with 204.
    pub(super) succeeded: u32,
}

/// The receiver of all subscriptions.
#[derive(Debug, Default)]
pub(super) struct FailingReceiver {
    seed: u64,
    subscriptions: Mutex<Vec<Subscribed>>,
    receipts: Mutex<HashMap<(String, String), Receipt>>,
    violations: Mutex<Vec<String>>,
    is_healthy: AtomicBool,
    pub(super) requests: AtomicU64,
}

impl FailingReceiver {
    /// Starts it on a free port. It runs until the process ends.
    pub(super) async fn start(seed: u64) -> (Arc<Self>, SocketAddr) {
        let receiver = Arc::new(Self { seed, ..Self::default() });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port for the receiver");
        let address = listener.local_addr().expect("the port's number");
        let accepting = Arc::clone(&receiver);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&accepting).serve(stream));
            }
        });
        (receiver, address)
    }

    pub(super) fn subscribe(&self, subscribed: Subscribed) {
        self.subscriptions.lock().push(subscribed);
    }

    /// From now on every request succeeds.
    pub(super) fn become_healthy(&self) {
        self.is_healthy.store(true, Ordering::Relaxed);
    }

    pub(super) fn subscriptions(&self) -> Vec<Subscribed> {
        self.subscriptions.lock().clone()
    }

    /// What was received for each path and event.
    pub(super) fn receipts(&self) -> HashMap<(String, String), Receipt> {
        self.receipts.lock().clone()
    }

    /// Requests that must not have been sent as they were.
    pub(super) fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        drop(stream.set_nodelay(true));
        let service = service_fn(move |request| Arc::clone(&self).respond(request));
        drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
    }

    async fn respond(self: Arc<Self>, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        let path = head.uri.path().to_owned();
        let delivery = header("x-connect-delivery").unwrap_or_default().to_owned();
        self.requests.fetch_add(1, Ordering::Relaxed);
        let event = self.record(&path, &delivery, header("x-connect-signature").unwrap_or_default(), &body);
        let key = (path, event);
        let tries = self.receipts.lock().get(&key).map_or(0, |receipt| receipt.requests);
        let status = match self.decide(&key, tries) {
            // The receiver has the webhook, and the dispatcher does not know.
            Decision::Disconnect => return Err(io::Error::other("as planned")),
            Decision::TooLate => {
                sleep(TOO_LATE).await;
                204
            }
            Decision::Status(status) => status,
        };
        if status == 204
            && let Some(receipt) = self.receipts.lock().get_mut(&key)
        {
            receipt.succeeded += 1;
        }
        Ok(Response::builder().status(status).body(Full::default()).expect("a valid response"))
    }

    fn decide(&self, key: &(String, String), tries: u32) -> Decision {
        if self.is_healthy.load(Ordering::Relaxed) {
            return Decision::Status(204);
        }
        // By the delivery and its number of requests, not by the order in which deliveries arrive.
        let seed = self.seed ^ hash(key).wrapping_add(u64::from(tries));
        match Random::new(seed).below(100) {
            0..=9 => Decision::Status(500),
            10..=17 => Decision::Status(429),
            18..=23 => Decision::Disconnect,
            24..=27 => Decision::TooLate,
            _ => Decision::Status(204),
        }
    }

    /// Records a request, and returns the id of its event.
    fn record(&self, path: &str, delivery: &str, signature: &str, body: &Bytes) -> String {
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let event = json["eventId"].as_str().unwrap_or_default().to_owned();
        let secret = self.subscriptions.lock().iter().find(|one| one.path == path).map(|one| one.secret.clone());
        let verified = secret.map(|secret| verify_webhook(secret.as_bytes(), signature, body, crate::now()));
        if !matches!(verified, Some(Ok(()))) {
            self.add_violation(format!("{path}: the signature of {delivery} is wrong: {verified:?}"));
        }
        let mut receipts = self.receipts.lock();
        let first = || Receipt { delivery: delivery.to_owned(), body: hash(body), requests: 0, succeeded: 0 };
        let receipt = receipts.entry((path.to_owned(), event.clone())).or_insert_with(first);
        receipt.requests += 1;
        if receipt.delivery != delivery || receipt.body != hash(body) {
            let first = receipt.delivery.clone();
            self.add_violation(format!("{path}: requests for {event} differ: deliveries {first} and {delivery}"));
        }
        event
    }

    fn add_violation(&self, what: String) {
        self.violations.lock().push(what);
    }
}

/// How a request is responded to.
enum Decision {
    Status(u16),
    /// With 204, when the dispatcher does not wait any more.
    TooLate,
    /// Not at all.
    Disconnect,
}

fn hash(value: &impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
