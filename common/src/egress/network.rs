//! Name resolution and TCP behind a trait, so that tests can replace them.

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

/// A name's addresses, or why it has none.
pub type ResolveResult = Result<Vec<IpAddr>, String>;

/// The system calls of a connector, without any policy.
pub trait Network: Send + Sync + 'static {
    /// The addresses of a name.
    fn resolve(&self, name: &str) -> BoxFuture<'static, ResolveResult>;
    /// A connection to exactly this address.
    fn dial(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>>;
}

/// Maximum number of concurrent lookups, each on its own thread. Further ones wait, within their attempt's timeout.
const LOOK_UPS: usize = 256;

/// The system's resolver and TCP.
///
/// A lookup occupies a thread until the system responds, even if its caller has timed out. So a name has at most one lookup at
/// a time: a name whose servers do not respond occupies one thread, however long its backlog (D28).
#[derive(Clone, Copy, Debug)]
pub struct SystemNetwork;

type LookUps = HashMap<String, Shared<BoxFuture<'static, ResolveResult>>>;

/// The lookups of this process.
static UNDER_WAY: LazyLock<Arc<Mutex<LookUps>>> = LazyLock::new(Arc::default);

impl Network for SystemNetwork {
    fn resolve(&self, name: &str) -> BoxFuture<'static, ResolveResult> {
        join_or_start(&UNDER_WAY, name, look_up)
    }

    fn dial(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        TcpStream::connect(address).boxed()
    }
}

/// Joins the running lookup of `name`, or starts one.
fn join_or_start<F: Future<Output = ResolveResult> + Send + 'static>(
    under_way: &Arc<Mutex<LookUps>>,
    name: &str,
    look_up: fn(String) -> F,
) -> BoxFuture<'static, ResolveResult> {
    let mut look_ups = lock(under_way);
    if let Some(joined) = look_ups.get(name) {
        return joined.clone().boxed();
    }
    let (all, key) = (Arc::clone(under_way), name.to_owned());
    // A separate task, so that the lookup is removed even if all callers have timed out.
    let task = tokio::spawn(async move {
        let result = look_up(key.clone()).await;
        lock(&all).remove(&key);
        result
    });
    let begun = task.map(|ended| ended.unwrap_or_else(|error| Err(error.to_string()))).boxed().shared();
    look_ups.insert(name.to_owned(), begun.clone());
    begun.boxed()
}

/// Runs on its own thread instead of the runtime's blocking pool, for which the shutdown of the runtime would wait.
async fn look_up(name: String) -> ResolveResult {
    static PERMITS: Semaphore = Semaphore::const_new(LOOK_UPS);
    let permit = PERMITS.acquire().await.map_err(|error| error.to_string())?;
    let (sender, receiver) = oneshot::channel();
    let looking_up = move || {
        let found = (name.as_str(), 0).to_socket_addrs();
        drop(permit);
        // Sending fails if the runtime has ended, because the receiver was dropped then.
        drop(sender.send(found.map(|all| all.map(|address| address.ip()).collect())));
    };
    let thread = thread::Builder::new().name("look-up".to_owned());
    thread.spawn(looking_up).map_err(|error| error.to_string())?;
    let found: Vec<IpAddr> =
        receiver.await.map_err(|error| error.to_string())?.map_err(|error: io::Error| error.to_string())?;
    if found.is_empty() { Err("it has no address".to_owned()) } else { Ok(found) }
}

fn lock(look_ups: &Mutex<LookUps>) -> MutexGuard<'_, LookUps> {
    look_ups.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn resolves_localhost_and_no_invalid_name() {
        let local = SystemNetwork.resolve("localhost").await.unwrap();
        assert!(!local.is_empty() && local.iter().all(IpAddr::is_loopback), "{local:?}");
        assert!(SystemNetwork.resolve("nowhere.invalid").await.is_err());
        assert!(lock(&UNDER_WAY).is_empty());
    }

    #[tokio::test]
    async fn concurrent_lookups_of_a_name_are_shared() {
        static BEGUN: AtomicU32 = AtomicU32::new(0);
        async fn never(_name: String) -> ResolveResult {
            BEGUN.fetch_add(1, Ordering::SeqCst);
            pending().await
        }
        let under_way = Arc::default();
        for _ in 0..3 {
            let asked = join_or_start(&under_way, "slow.example", never);
            // Every caller times out.
            assert_eq!(tokio::time::timeout(std::time::Duration::from_millis(1), asked).await.ok(), None);
        }
        assert_eq!(BEGUN.load(Ordering::SeqCst), 1);
        assert_eq!(lock(&under_way).len(), 1);
    }
}
