//! A webhook receiver that records requests and behaves as a test configures it, properly or not.
//!
//! It implements HTTP/1.1 itself, because no library sends garbage, resets or an endless body on demand. It runs on its
//! own thread.

mod authority;
mod received;
mod serve;
mod wire;

pub use authority::{Authority, Certificate};
pub use received::{Behavior, ReceivedRequest};

use crate::{MAX_WAIT, threads};
use serve::{ConnectionMode, SharedState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// A receiver on a free port of 127.0.0.1. It responds with 204 unless configured otherwise, and stops when the value is dropped.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<SharedState>,
    _running: watch::Sender<()>,
}

impl Receiver {
    /// A receiver without TLS.
    pub fn http() -> Self {
        Self::start(None)
    }

    /// A receiver with TLS, for `localhost` and 127.0.0.1.
    pub fn https(authority: &Authority) -> Self {
        Self::https_for(authority, &["localhost", "127.0.0.1"])
    }

    /// A receiver with TLS, whose certificate is for these names and addresses.
    pub fn https_for(authority: &Authority, names: &[&str]) -> Self {
        Self::start(Some(authority.acceptor(names)))
    }

    fn start(tls: Option<TlsAcceptor>) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(SharedState::default());
        let (running, ended) = watch::channel(());
        let of_server = Arc::clone(&shared);
        let address = threads::serve(|listener| serve::accept(listener, tls, of_server, ended));
        Self { address, scheme, shared, _running: running }
    }

    /// The address that the receiver listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL by address.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// Its URL by name.
    pub fn url_by_name(&self, path: &str) -> String {
        format!("{}://localhost:{}{path}", self.scheme, self.address.port())
    }

    /// Sets the behavior for all requests that have no other one.
    pub fn respond_to_all(&self, behavior: Behavior) {
        self.shared.change(|state| state.others = behavior);
    }

    /// Sets the behavior for all requests of this path (without its query).
    pub fn respond(&self, path: &str, behavior: Behavior) {
        self.shared.change(|state| drop(state.standing.insert(path.to_owned(), behavior)));
    }

    /// Sets the behavior for the next requests of this path, one each.
    pub fn respond_to_next(&self, path: &str, behaviors: impl IntoIterator<Item = Behavior>) {
        self.shared.change(|state| state.next.entry(path.to_owned()).or_default().extend(behaviors));
    }

    /// Makes requests whose behavior is [`Behavior::held`] wait, until [`release`](Self::release).
    pub fn hold(&self) {
        self.shared.hold(true);
    }

    /// Continues the requests that wait.
    pub fn release(&self) {
        self.shared.hold(false);
    }

    /// New connections are reset at once, before TLS.
    pub fn reset_new_connections(&self) {
        self.shared.change(|state| state.connection_mode = ConnectionMode::Reset);
    }

    /// New connections are accepted and then ignored: no TLS handshake, no request is read.
    pub fn ignore_new_connections(&self) {
        self.shared.change(|state| state.connection_mode = ConnectionMode::Silent);
    }

    /// Closes the connections that wait for a request, in an orderly way. Returns when they are closed.
    pub async fn close_idle(&self) {
        self.shared.close_idle();
        self.until("idle connections are closed", || self.shared.with_state(|state| state.idle == 0)).await;
    }

    /// How many requests have come.
    pub fn count(&self) -> usize {
        self.shared.with_state(|state| state.received.len())
    }

    /// The requests that have come, in their order.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.shared.with_state(|state| state.received.clone())
    }

    /// The requests of a path (without its query), in their order.
    pub fn received_at(&self, path: &str) -> Vec<ReceivedRequest> {
        self.with_received(|all| all.iter().filter(|one| one.path() == path).cloned().collect())
    }

    /// Reads the requests without copying them.
    pub fn with_received<T>(&self, look: impl FnOnce(&[ReceivedRequest]) -> T) -> T {
        self.shared.with_state(|state| look(&state.received))
    }

    /// Removes the recorded requests.
    pub fn clear_received(&self) {
        self.shared.change(|state| state.received.clear());
    }

    /// How many connections are open now.
    pub fn connections(&self) -> usize {
        self.shared.with_state(|state| state.open)
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> usize {
        self.shared.with_state(|state| state.accepted)
    }

    /// Waits until `count` requests have come, and returns them.
    pub async fn wait_for(&self, count: usize) -> Vec<ReceivedRequest> {
        self.wait_for_within(MAX_WAIT, count).await
    }

    /// [`wait_for`](Self::wait_for) when that may take longer than usual.
    pub async fn wait_for_within(&self, within: Duration, count: usize) -> Vec<ReceivedRequest> {
        self.until_within(within, &format!("{count} requests"), || self.count() >= count).await;
        self.received()
    }

    /// Waits until `count` requests of a path have come, and returns them.
    pub async fn wait_for_at(&self, path: &str, count: usize) -> Vec<ReceivedRequest> {
        let has_come =
            || self.with_received(|all| all.iter().filter(|one| one.path() == path).take(count).count() == count);
        self.until(&format!("{count} requests of {path}"), has_come).await;
        self.received_at(path)
    }

    /// Waits until exactly `count` connections are open.
    pub async fn wait_for_connections(&self, count: usize) {
        self.until(&format!("{count} open connections"), || self.connections() == count).await;
    }

    /// Waits until exactly `count` connections are open and wait for a request.
    pub async fn wait_for_idle(&self, count: usize) {
        let idle = || self.shared.with_state(|state| state.idle == count);
        self.until(&format!("{count} idle connections"), idle).await;
    }

    async fn until(&self, what: &str, met: impl FnMut() -> bool) {
        self.until_within(MAX_WAIT, what, met).await;
    }

    /// Checks the condition after each change of the receiver's state.
    async fn until_within(&self, within: Duration, what: &str, mut met: impl FnMut() -> bool) {
        let mut changes = self.shared.changes();
        let waiting = async {
            while !met() {
                changes.changed().await.expect("this receiver has the sender");
            }
        };
        if timeout(within, waiting).await.is_err() {
            let (count, open) = (self.count(), self.connections());
            panic!("not within {within:?}: {what}; there are {count} requests, {open} open connections");
        }
    }
}
