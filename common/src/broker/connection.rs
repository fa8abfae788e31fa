//! The supervised connection to RabbitMQ: connects, watches the connection, and reconnects after it is lost.

use super::dial::{DialError, dial, longest_connect};
use super::mac::MessageKeys;
use super::topology::{self, Queue, QueueUse, queue_name};
use crate::limited;
use crate::log_limit::LogLimit;
use crate::metrics::BROKER_CONNECTED;
use crate::settings::BrokerSettings;
use futures_util::StreamExt;
use lapin::{Connection, Event};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The wait before a further attempt to connect: programs are ready again within a second after the broker accepts connections.
const RETRY_WAIT: Duration = Duration::from_millis(200);
/// The same after the broker has refused the user: it may count such attempts.
const DENIED_WAIT: Duration = Duration::from_secs(2);
/// How often the connection's status is polled, besides waiting for its events.
const STATUS_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Limits the log lines of attempts that fail.
static FAILURES: LogLimit<2> = LogLimit::new();

/// The connections of this process, by name: the metric is about all of them.
static CONNECTED: ConnectionStates = ConnectionStates(Mutex::new(BTreeMap::new()));

/// The connections that the program needs, by name, and whether each is established.
struct ConnectionStates(Mutex<BTreeMap<&'static str, bool>>);

impl ConnectionStates {
    /// Sets the gauge to whether all connections are established, and returns it.
    fn report(&self, name: &'static str, is_connected: bool) -> bool {
        // The lock is held until the gauge is set, so that the last value set is the current one.
        let mut connections = self.0.lock();
        connections.insert(name, is_connected);
        let all_connected = connections.values().all(|is_connected| *is_connected);
        metrics::gauge!(BROKER_CONNECTED).set(f64::from(u8::from(all_connected)));
        all_connected
    }
}

/// A handle to the connection; cheap to clone.
#[derive(Clone, Debug)]
pub struct Broker {
    link: watch::Receiver<Option<Arc<Link>>>,
    prefix: String,
    keys: MessageKeys,
}

/// One established connection, until it is lost or closed.
pub(super) struct Link {
    pub(super) connection: Connection,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}

/// The current length of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDepth {
    /// Messages that wait to be delivered; unacknowledged ones are not among them.
    pub ready: u32,
    /// Consumers that are subscribed to the queue.
    pub consumers: u32,
}

impl Broker {
    /// Begins to connect in the background, until `shutdown`; `program` is the name the broker shows. Messages and
    /// replies are signed and verified with `keys`. On each connection it declares the `queues` that the program uses.
    pub fn start(
        settings: &BrokerSettings, keys: MessageKeys, program: &'static str, queues: QueueUse,
        shutdown: CancellationToken,
    ) -> Self {
        let (sender, link) = watch::channel(None);
        CONNECTED.report(program, false);
        let target = Target { settings: settings.clone(), program, queues };
        crate::critical_task::spawn("broker connection", supervise(target, sender, shutdown));
        Self { link, prefix: settings.prefix.clone(), keys }
    }

    /// Whether a connection is established.
    pub fn is_connected(&self) -> bool {
        self.link.borrow().as_ref().is_some_and(|link| link.connection.status().connected())
    }

    /// Whether messages can be published on the connection, as far as is known: a broker short of memory or disk blocks
    /// publishers, and says so to a connection that has tried to publish.
    pub fn can_publish(&self) -> bool {
        let can_publish = |link: &Link| {
            let status = link.connection.status();
            status.connected() && !status.blocked()
        };
        self.link.borrow().as_ref().is_some_and(|link| can_publish(link))
    }

    /// What messages and replies are signed and verified with.
    pub(super) const fn keys(&self) -> &MessageKeys {
        &self.keys
    }

    /// What the names of its queues begin with.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// `<prefix>.<name>` of a queue.
    pub fn queue_name(&self, queue: Queue) -> String {
        queue_name(&self.prefix, queue)
    }

    /// Waits until the connection is closed in an orderly way, after the shutdown it was started with.
    pub async fn closed(&self) {
        let mut link = self.link.clone();
        while link.changed().await.is_ok() {}
    }

    /// Waits for a connection. `None` once the program shuts down.
    pub(super) async fn link(&self) -> Option<Arc<Link>> {
        let mut link = self.link.clone();
        let found = link.wait_for(|link| link.as_ref().is_some_and(|link| link.connection.status().connected()));
        found.await.ok().and_then(|link| link.clone())
    }

    /// The current length of `queue`; `None` when the broker cannot be reached or the queue does not exist.
    pub async fn depth(&self, queue: &str) -> Option<QueueDepth> {
        self.inspect(queue).await.flatten()
    }

    /// The current length of `queue`: `None` when the broker cannot be reached, `Some(None)` when the queue does not exist.
    pub(super) async fn inspect(&self, queue: &str) -> Option<Option<QueueDepth>> {
        let link = self.link.borrow().clone()?;
        timeout(Duration::from_secs(2), topology::depth(&link.connection, queue)).await.ok()?.ok()
    }
}

/// The brokers to connect to, the connection's name, and the queues to declare.
struct Target {
    settings: BrokerSettings,
    program: &'static str,
    queues: QueueUse,
}

async fn supervise(target: Target, link: watch::Sender<Option<Arc<Link>>>, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        let connected = timeout(longest_connect(&target.settings), connect(&target)).await;
        if !matches!(connected, Ok(Ok(_))) {
            // A broker may accept connections and still be unusable, such as one on which a queue cannot be declared.
            target.settings.urls.skip();
        }
        let is_denied = matches!(&connected, Ok(Err(error)) if error.is_denied());
        match connected {
            Ok(Ok((connection, place))) => {
                let current = Arc::new(Link { connection });
                link.send_replace(Some(Arc::clone(&current)));
                CONNECTED.report(target.program, true);
                tracing::info!("broker connected");
                watch_until_lost(&current.connection, &shutdown).await;
                link.send_replace(None);
                CONNECTED.report(target.program, false);
                if shutdown.is_cancelled() {
                    drop(current.connection.close(200, "shutdown".into()).await);
                } else {
                    // It may still accept connections, and be of no use, such as a node that its cluster has lost.
                    target.settings.urls.avoid(place);
                    tracing::warn!("broker connection lost; reconnecting");
                }
            }
            Ok(Err(error)) => limited!(FAILURES[0], warn, %error, "connecting to the broker failed; retrying"),
            Err(_) => limited!(FAILURES[1], warn, "connecting to the broker timed out; retrying"),
        }
        shutdown.run_until_cancelled(sleep(if is_denied { DENIED_WAIT } else { RETRY_WAIT })).await;
    }
}

async fn connect(target: &Target) -> Result<(Connection, usize), DialError> {
    let (connection, place) = dial(&target.settings, target.program).await?;
    topology::declare(&connection, &target.settings, target.queues).await?;
    Ok((connection, place))
}

async fn watch_until_lost(connection: &Connection, shutdown: &CancellationToken) {
    let mut events = std::pin::pin!(connection.events_listener());
    while connection.status().connected() {
        tokio::select! {
            event = events.next() => match event {
                // Errors of single channels are reported here as well. The loop's condition shows whether the connection is
                // affected.
                Some(Event::Error(error)) => tracing::debug!(%error, "the broker reported an error on the connection or a channel"),
                None => return,
                // Publishing checks the connection's status for whether publishers are blocked.
                Some(_) => {}
            },
            () = sleep(STATUS_POLL_INTERVAL) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_connected_when_all_of_its_connections_are() {
        let connected = ConnectionStates(Mutex::default());
        assert!(!connected.report("consuming", false));
        assert!(!connected.report("publishing", false));
        assert!(!connected.report("publishing", true));
        assert!(connected.report("consuming", true));
        assert!(!connected.report("publishing", false));
    }
}
