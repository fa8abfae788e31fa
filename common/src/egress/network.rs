//! Name resolution and TCP behind a trait, so that tests can replace them.

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock};
use std::{io, thread};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

/// A name's addresses, or why it has none.
pub type ResolveResult = Result<Vec<IpAddr>, String>;

/// The system calls of a connector, without any policy.
pub trait Network: Send + Sync + 'static {
    /// The addresses of a name.
    fn resolve(&self, name: &str) -> BoxFuture<'static, ResolveResult>;
    /// A connection to exactly this address.
    fn dial(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>>;
}

tokio::task_local! {
    /// For whom a name is looked up. Without it all share what one owner may have.
    pub static LOOK_UP_OWNER: Uuid;
}

/// Maximum number of concurrent lookups, each on its own thread. An owner gets half as many as it leaves to others, so that one
/// whose name servers do not respond delays no other. Further ones wait, within their attempt's timeout.
pub const LOOK_UPS: usize = 256;

/// The system's resolver and TCP.
///
/// A lookup occupies a thread until the system responds, even if its caller has timed out. So a name has at most one lookup at
/// a time: a name whose servers do not respond occupies one thread, however long its backlog (D28).
#[derive(Clone, Copy, Debug)]
pub struct SystemNetwork;

/// Lookups that run, by name.
#[derive(Debug, Default)]
struct LookUps {
    running: Mutex<HashMap<String, LookUp>>,
    ended: Notify,
}

#[derive(Clone, Debug)]
struct LookUp {
    owner: Uuid,
    result: Shared<BoxFuture<'static, ResolveResult>>,
}

static LOOK_UPS_OF_PROCESS: LazyLock<Arc<LookUps>> = LazyLock::new(Arc::default);

impl Network for SystemNetwork {
    fn resolve(&self, name: &str) -> BoxFuture<'static, ResolveResult> {
        let owner = LOOK_UP_OWNER.try_with(|owner| *owner).unwrap_or_default();
        Arc::clone(&LOOK_UPS_OF_PROCESS).resolve(owner, name.to_owned(), look_up).boxed()
    }

    fn dial(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        TcpStream::connect(address).boxed()
    }
}

impl LookUps {
    /// Joins the running lookup of `name`, or starts one once its owner may have one more.
    async fn resolve<F: Future<Output = ResolveResult> + Send + 'static>(
        self: Arc<Self>, owner: Uuid, name: String, look_up: fn(String) -> F,
    ) -> ResolveResult {
        loop {
            let ended = self.ended.notified();
            if let Some(result) = self.join_or_start(owner, &name, look_up) {
                return result.await;
            }
            ended.await;
        }
    }

    fn join_or_start<F: Future<Output = ResolveResult> + Send + 'static>(
        self: &Arc<Self>, owner: Uuid, name: &str, look_up: fn(String) -> F,
    ) -> Option<Shared<BoxFuture<'static, ResolveResult>>> {
        let mut running = self.running.lock();
        if let Some(joined) = running.get(name) {
            return Some(joined.result.clone());
        }
        let own = running.values().filter(|one| one.owner == owner).count();
        if 2 * own >= LOOK_UPS - running.len() {
            return None;
        }
        let (all, key) = (Arc::clone(self), name.to_owned());
        // A separate task, so that the lookup is removed even if all callers have timed out.
        let task = tokio::spawn(async move {
            let result = look_up(key.clone()).await;
            all.running.lock().remove(&key);
            all.ended.notify_waiters();
            result
        });
        let result = task.map(|ended| ended.unwrap_or_else(|error| Err(error.to_string()))).boxed().shared();
        running.insert(name.to_owned(), LookUp { owner, result: result.clone() });
        Some(result)
    }
}

/// Runs on its own thread instead of the runtime's blocking pool, for which the shutdown of the runtime would wait.
async fn look_up(name: String) -> ResolveResult {
    let (sender, receiver) = oneshot::channel();
    let looking_up = move || {
        let found = (name.as_str(), 0).to_socket_addrs();
        // Sending fails if the runtime has ended, because the receiver was dropped then.
        drop(sender.send(found.map(|all| all.map(|address| address.ip()).collect())));
    };
    let thread = thread::Builder::new().name("look-up".to_owned());
    thread.spawn(looking_up).map_err(|error| error.to_string())?;
    let found: Vec<IpAddr> =
        receiver.await.map_err(|error| error.to_string())?.map_err(|error: io::Error| error.to_string())?;
    if found.is_empty() { Err("it has no address".to_owned()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn resolves_localhost_and_no_invalid_name() {
        let local = SystemNetwork.resolve("localhost").await.unwrap();
        assert!(!local.is_empty() && local.iter().all(IpAddr::is_loopback), "{local:?}");
        assert!(SystemNetwork.resolve("nowhere.invalid").await.is_err());
        assert!(LOOK_UPS_OF_PROCESS.running.lock().is_empty());
    }

    #[tokio::test]
    async fn concurrent_lookups_of_a_name_are_shared() {
        static BEGUN: AtomicU32 = AtomicU32::new(0);
        async fn never(_name: String) -> ResolveResult {
            BEGUN.fetch_add(1, Ordering::SeqCst);
            pending().await
        }
        let look_ups = Arc::<LookUps>::default();
        for owner in 0..3 {
            let owner = Uuid::from_u128(owner);
            let asked = Arc::clone(&look_ups).resolve(owner, "slow.example".to_owned(), never);
            // Every caller times out.
            assert_eq!(timeout(Duration::from_millis(1), asked).await.ok(), None);
        }
        assert_eq!(BEGUN.load(Ordering::SeqCst), 1);
        assert_eq!(look_ups.running.lock().len(), 1);
    }

    #[tokio::test]
    async fn names_of_one_owner_that_are_never_found_delay_no_other_owner() {
        async fn found_unless_silent(name: String) -> ResolveResult {
            if name.ends_with(".silent.example") { pending().await } else { Ok(Vec::new()) }
        }
        let look_ups = Arc::<LookUps>::default();
        let [silent, other] = [1, 2].map(Uuid::from_u128);
        for number in 0..2 * LOOK_UPS {
            let name = format!("{number}.silent.example");
            let asked = Arc::clone(&look_ups).resolve(silent, name, found_unless_silent);
            // Nobody waits for it any more, but it goes on.
            assert_eq!(asked.now_or_never(), None);
        }
        assert!(look_ups.running.lock().len() <= LOOK_UPS / 2, "{} lookups", look_ups.running.lock().len());
        for number in 0..LOOK_UPS {
            let asked = Arc::clone(&look_ups).resolve(other, format!("{number}.example"), found_unless_silent);
            assert_eq!(asked.await, Ok(Vec::new()));
        }
    }
}
