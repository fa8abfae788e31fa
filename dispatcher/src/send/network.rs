//! The name service and TCP, behind a trait: what a test can answer in their place.

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

/// A name's addresses, or why it has none.
pub(super) type Answer = Result<Vec<IpAddr>, String>;

/// What a connector needs of the system. It decides nothing.
pub(super) trait Network: Send + Sync + 'static {
    /// The addresses of a name.
    fn resolve(&self, name: &str) -> BoxFuture<'static, Answer>;
    /// A connection to exactly this address.
    fn dial(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>>;
}

/// Look-ups at once, each on a thread of its own. Further ones wait, within their attempt's time.
const LOOK_UPS: usize = 256;

/// The system's resolver and TCP.
///
/// A look-up occupies a thread until the system answers, also when nobody waits for it any more. So there is one at
/// a time for a name, whoever asks: a name whose servers are dead holds one thread, however long its backlog (D28).
#[derive(Debug, Default)]
pub(super) struct System {
    under_way: Arc<Mutex<LookUps>>,
}

type LookUps = HashMap<String, Shared<BoxFuture<'static, Answer>>>;

impl Network for System {
    fn resolve(&self, name: &str) -> BoxFuture<'static, Answer> {
        once(&self.under_way, name, look_up)
    }

    fn dial(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        TcpStream::connect(address).boxed()
    }
}

/// Joins the look-up of `name` that is under way, or begins it.
fn once<F: Future<Output = Answer> + Send + 'static>(
    under_way: &Arc<Mutex<LookUps>>,
    name: &str,
    look_up: fn(String) -> F,
) -> BoxFuture<'static, Answer> {
    let mut look_ups = lock(under_way);
    if let Some(joined) = look_ups.get(name) {
        return joined.clone().boxed();
    }
    let (all, key) = (Arc::clone(under_way), name.to_owned());
    // A task of its own, so that it ends and is forgotten even if all who asked have given up.
    let task = tokio::spawn(async move {
        let answer = look_up(key.clone()).await;
        lock(&all).remove(&key);
        answer
    });
    let begun = task.map(|ended| ended.unwrap_or_else(|error| Err(error.to_string()))).boxed().shared();
    look_ups.insert(name.to_owned(), begun.clone());
    begun.boxed()
}

/// Not on the runtime's own threads for what blocks: the runtime's end would wait for them, and with it a drain.
async fn look_up(name: String) -> Answer {
    static PERMITS: Semaphore = Semaphore::const_new(LOOK_UPS);
    let permit = PERMITS.acquire().await.map_err(|error| error.to_string())?;
    let (answer, answered) = oneshot::channel();
    let looking_up = move || {
        let found = (name.as_str(), 0).to_socket_addrs();
        drop(permit);
        // Nobody is left to hear it when the runtime has ended.
        drop(answer.send(found.map(|all| all.map(|address| address.ip()).collect())));
    };
    let thread = thread::Builder::new().name("look-up".to_owned());
    thread.spawn(looking_up).map_err(|error| error.to_string())?;
    answered.await.map_err(|error| error.to_string())?.map_err(|error: io::Error| error.to_string())
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
    async fn the_systems_resolver_knows_localhost_and_not_what_is_invalid() {
        let system = System::default();
        let local = system.resolve("localhost").await.unwrap();
        assert!(!local.is_empty() && local.iter().all(IpAddr::is_loopback), "{local:?}");
        assert!(system.resolve("nowhere.invalid").await.is_err());
        assert!(lock(&system.under_way).is_empty());
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_at_a_time_whoever_asks() {
        static BEGUN: AtomicU32 = AtomicU32::new(0);
        async fn never(_name: String) -> Answer {
            BEGUN.fetch_add(1, Ordering::SeqCst);
            pending().await
        }
        let under_way = Arc::default();
        for _ in 0..3 {
            let asked = once(&under_way, "slow.example", never);
            // Whoever asked gives up.
            assert_eq!(tokio::time::timeout(std::time::Duration::from_millis(1), asked).await.ok(), None);
        }
        assert_eq!(BEGUN.load(Ordering::SeqCst), 1);
        assert_eq!(lock(&under_way).len(), 1);
    }
}
