//! A webhook receiver that records what comes and behaves as it is told, well or badly.
//!
//! It speaks HTTP/1.1 by hand, as no library sends garbage, resets or an endless body on demand. It runs on a thread
//! of its own, beside the test's runtime.

mod authority;
mod behaviour;
mod received;
mod serve;
mod wire;

pub use authority::Authority;
pub use behaviour::Behaviour;
pub use received::Received;

use crate::PATIENCE;
use serve::{Door, Shared};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// A receiver on a free port of 127.0.0.1. It answers 204 unless told otherwise, and ends with its value.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    _running: watch::Sender<()>,
}

impl Receiver {
    /// One without TLS.
    pub fn http() -> Self {
        Self::start(None)
    }

    /// One with TLS, for `localhost` and 127.0.0.1.
    pub fn https(authority: &Authority) -> Self {
        Self::https_for(authority, &["localhost", "127.0.0.1"])
    }

    /// One with TLS, whose certificate is for these names and addresses.
    pub fn https_for(authority: &Authority, names: &[&str]) -> Self {
        Self::start(Some(authority.acceptor(names)))
    }

    fn start(tls: Option<TlsAcceptor>) -> Self {
        let listener =
            std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for the receiver");
        listener.set_nonblocking(true).expect("a listener for the runtime");
        let address = listener.local_addr().expect("the port's number");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared::default());
        let (running, ended) = watch::channel(());
        let serving = serve::accept(listener, tls, Arc::clone(&shared), ended);
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serving);
        });
        Self { address, scheme, shared, _running: running }
    }

    /// Where it listens.
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

    /// From now on, behaves so to every request.
    pub fn answer_all(&self, behaviour: Behaviour) {
        self.shared.change(|state| state.others = behaviour);
    }

    /// From now on, behaves so to every request of this path (without its query).
    pub fn answer(&self, path: &str, behaviour: Behaviour) {
        self.shared.change(|state| drop(state.standing.insert(path.to_owned(), behaviour)));
    }

    /// Behaves so to the next requests of this path, one each; then as before.
    pub fn answer_next(&self, path: &str, behaviours: impl IntoIterator<Item = Behaviour>) {
        self.shared.change(|state| state.next.entry(path.to_owned()).or_default().extend(behaviours));
    }

    /// From now on, requests whose behaviour is [`Behaviour::held`] wait.
    pub fn hold(&self) {
        self.shared.hold(true);
    }

    /// Lets those that wait go on.
    pub fn release(&self) {
        self.shared.hold(false);
    }

    /// New connections are served (the default).
    pub fn open_door(&self) {
        self.shared.change(|state| state.door = Door::Open);
    }

    /// New connections are reset at once, before TLS.
    pub fn reset_at_the_door(&self) {
        self.shared.change(|state| state.door = Door::Resets);
    }

    /// New connections are taken, and then nothing happens: TLS isn't agreed on, no request is read.
    pub fn silent_at_the_door(&self) {
        self.shared.change(|state| state.door = Door::Silent);
    }

    /// Closes the connections that wait for a request, in an orderly way. Returns when they are closed.
    pub async fn close_idle(&self) {
        self.shared.close_idle();
        self.until("idle connections are closed", || self.shared.look(|state| state.idle == 0)).await;
    }

    /// How many requests have come.
    pub fn count(&self) -> usize {
        self.shared.look(|state| state.received.len())
    }

    /// The requests that have come, in their order.
    pub fn received(&self) -> Vec<Received> {
        self.shared.look(|state| state.received.clone())
    }

    /// Those of a path (without its query).
    pub fn received_at(&self, path: &str) -> Vec<Received> {
        self.with_received(|all| all.iter().filter(|one| one.path() == path).cloned().collect())
    }

    /// Looks at the requests without copying them.
    pub fn with_received<T>(&self, look: impl FnOnce(&[Received]) -> T) -> T {
        self.shared.look(|state| look(&state.received))
    }

    /// Forgets the requests that have come.
    pub fn forget(&self) {
        self.shared.change(|state| state.received.clear());
    }

    /// How many connections are open now.
    pub fn connections(&self) -> usize {
        self.shared.look(|state| state.open)
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> usize {
        self.shared.look(|state| state.accepted)
    }

    /// Waits until `count` requests have come, and gives them.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        self.wait_for_within(PATIENCE, count).await
    }

    /// [`wait_for`](Self::wait_for) when that may take longer than usual.
    pub async fn wait_for_within(&self, within: Duration, count: usize) -> Vec<Received> {
        self.until_within(within, &format!("{count} requests"), || self.count() >= count).await;
        self.received()
    }

    /// Waits until `count` requests of a path have come, and gives them.
    pub async fn wait_for_at(&self, path: &str, count: usize) -> Vec<Received> {
        let has_come = || {
            self.with_received(|all| all.iter().filter(|one| one.path() == path).take(count).count() == count)
        };
        self.until(&format!("{count} requests of {path}"), has_come).await;
        self.received_at(path)
    }

    /// Waits until exactly `count` connections are open.
    pub async fn wait_for_connections(&self, count: usize) {
        self.until(&format!("{count} open connections"), || self.connections() == count).await;
    }

    /// Waits until exactly `count` connections are open and wait for a request.
    pub async fn wait_for_idle(&self, count: usize) {
        let idle = || self.shared.look(|state| state.idle == count);
        self.until(&format!("{count} idle connections"), idle).await;
    }

    async fn until(&self, what: &str, met: impl FnMut() -> bool) {
        self.until_within(PATIENCE, what, met).await;
    }

    /// Looks whenever something has changed here.
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
