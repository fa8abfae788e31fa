//! The supervised connection: made, watched, made again.

use super::mac::MessageKeys;
use super::topology::{self, Queue, queue_name};
use crate::metrics::BROKER_CONNECTED;
use crate::settings::BrokerSettings;
use futures_util::StreamExt;
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties, Event};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Longest that connecting and declaring the queues may take, unless the URLs' `connection_timeout` takes longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Of that, the connecting alone, to all brokers together; a `connection_timeout` replaces its broker's share.
const DIAL_TIMEOUT: Duration = Duration::from_secs(8);
/// Waits between tries to connect: the first and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Seconds without a sign of life after which a connection counts as dead.
const HEARTBEAT_SECONDS: u16 = 10;
/// How often a connection is looked at besides waiting for its events.
const LOOK: Duration = Duration::from_millis(500);

/// The connections of this process, by name: the metric is about all of them.
static CONNECTED: Connected = Connected(Mutex::new(BTreeMap::new()));

/// Which connections there are to be, and whether each is there.
struct Connected(Mutex<BTreeMap<&'static str, bool>>);

impl Connected {
    /// Shows whether all are there, and gives it.
    fn show(&self, name: &'static str, is_connected: bool) -> bool {
        // Held until it is shown, so that what is shown last is true.
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        connections.insert(name, is_connected);
        let are_all = connections.values().all(|is_connected| *is_connected);
        metrics::gauge!(BROKER_CONNECTED).set(f64::from(u8::from(are_all)));
        are_all
    }
}

/// A handle to the connection; cheap to clone.
#[derive(Clone, Debug)]
pub struct Broker {
    link: watch::Receiver<Option<Arc<Link>>>,
    prefix: String,
    keys: MessageKeys,
    retry_levels: u8,
}

/// One connection, from its making to its end.
pub(super) struct Link {
    pub(super) connection: Connection,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}

/// What is in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDepth {
    /// Messages waiting.
    pub ready: u32,
    /// Consumers.
    pub consumers: u32,
}

impl Broker {
    /// Begins to connect in the background, until `shutdown`; `program` is the name the broker shows. Messages and
    /// replies are signed and verified with `keys`.
    pub fn start(
        settings: &BrokerSettings,
        keys: MessageKeys,
        program: &'static str,
        shutdown: CancellationToken,
    ) -> Self {
        Self::start_with_retries(settings, keys, program, 0, shutdown)
    }

    /// The same, with the waiting queues of the first `retry_levels` levels declared.
    pub fn start_with_retries(
        settings: &BrokerSettings,
        keys: MessageKeys,
        program: &'static str,
        retry_levels: u8,
        shutdown: CancellationToken,
    ) -> Self {
        let (sender, link) = watch::channel(None);
        CONNECTED.show(program, false);
        let target = Target { settings: settings.clone(), program, retry_levels };
        crate::vital::spawn("broker connection", supervise(target, sender, shutdown));
        Self { link, prefix: settings.prefix.clone(), keys, retry_levels }
    }

    /// Whether there is a connection that works.
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

    /// `<prefix>.<name>` of a queue.
    pub fn queue_name(&self, queue: Queue) -> String {
        queue_name(&self.prefix, queue)
    }

    /// `<prefix>.<name>.dead` of a queue.
    pub(super) fn dead_queue_name(&self, queue: Queue) -> String {
        topology::dead_queue_name(&self.prefix, queue)
    }

    /// `<prefix>.webhooks.retry.<level>`, see [`retry_queue_name`](super::retry_queue_name).
    pub fn retry_queue_name(&self, level: u8) -> String {
        topology::retry_queue_name(&self.prefix, level)
    }

    /// How many levels of waiting queues it declares.
    pub(super) const fn retry_levels(&self) -> u8 {
        self.retry_levels
    }

    /// Waits until the connection is closed in an orderly way, after the shutdown it was started with.
    pub async fn closed(&self) {
        let mut link = self.link.clone();
        while link.changed().await.is_ok() {}
    }

    /// Waits for a connection. `None` once the program shuts down.
    pub(super) async fn link(&self) -> Option<Arc<Link>> {
        let mut link = self.link.clone();
        let found =
            link.wait_for(|link| link.as_ref().is_some_and(|link| link.connection.status().connected()));
        found.await.ok().and_then(|link| link.clone())
    }

    /// Asks the broker what is in `queue`; `None` when it can't be asked, or there is no such queue.
    pub async fn depth(&self, queue: &str) -> Option<QueueDepth> {
        self.look(queue).await.flatten()
    }

    /// Asks the broker for `queue`: `None` when it can't be asked, `Some(None)` when there is no such queue.
    pub(super) async fn look(&self, queue: &str) -> Option<Option<QueueDepth>> {
        let link = self.link.borrow().clone()?;
        timeout(Duration::from_secs(2), topology::depth(&link.connection, queue)).await.ok()?.ok()
    }
}

/// What is connected to, as whom, and what is declared there.
struct Target {
    settings: BrokerSettings,
    program: &'static str,
    retry_levels: u8,
}

async fn supervise(target: Target, link: watch::Sender<Option<Arc<Link>>>, shutdown: CancellationToken) {
    let mut wait = RETRY.0;
    while !shutdown.is_cancelled() {
        let connected = timeout(longest_connect(&target.settings), connect(&target)).await;
        if !matches!(connected, Ok(Ok(_))) {
            // It may take connections and still not do, such as one that can't declare a queue.
            target.settings.urls.skip();
        }
        match connected {
            Ok(Ok(connection)) => {
                wait = RETRY.0;
                let current = Arc::new(Link { connection });
                link.send_replace(Some(Arc::clone(&current)));
                CONNECTED.show(target.program, true);
                tracing::info!("broker connected");
                watch_until_lost(&current.connection, &shutdown).await;
                link.send_replace(None);
                CONNECTED.show(target.program, false);
                if shutdown.is_cancelled() {
                    drop(current.connection.close(200, "shutdown".into()).await);
                } else {
                    tracing::warn!("broker connection lost");
                }
            }
            Ok(Err(error)) if !is_late(&error) => tracing::warn!(%error, "broker can't be reached"),
            _ => tracing::warn!("broker doesn't answer"),
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(RETRY.1),
            () = shutdown.cancelled() => {}
        }
    }
}

fn is_late(error: &lapin::Error) -> bool {
    matches!(error.kind(), lapin::ErrorKind::IOError(error) if error.kind() == io::ErrorKind::TimedOut)
}

async fn connect(target: &Target) -> lapin::Result<Connection> {
    let connection = dial(&target.settings, target.program).await?;
    topology::declare(&connection, &target.settings, target.retry_levels).await?;
    Ok(connection)
}

/// How long the broker of that URL may take to answer: what the URL says, or its share of the time.
fn dial_timeout(settings: &BrokerSettings, uri: &AMQPUri) -> Duration {
    let share = DIAL_TIMEOUT / u32::try_from(settings.urls.count()).unwrap_or(u32::MAX);
    uri.query.connection_timeout.map_or(share, Duration::from_millis)
}

/// Longest that connecting and declaring the queues takes.
pub(super) fn longest_connect(settings: &BrokerSettings) -> Duration {
    let dialling = settings.urls.in_order().map(|(_, uri)| dial_timeout(settings, &uri));
    let dialling = dialling.fold(Duration::ZERO, Duration::saturating_add);
    CONNECT_TIMEOUT.max(dialling.saturating_add(CONNECT_TIMEOUT - DIAL_TIMEOUT))
}

/// A connection on which nothing is declared, to the first broker that answers.
pub(super) async fn dial(settings: &BrokerSettings, program: &str) -> lapin::Result<Connection> {
    let mut refused = lapin::Error::from(io::Error::from(io::ErrorKind::TimedOut));
    for (place, uri) in settings.urls.in_order() {
        let within = dial_timeout(settings, &uri);
        match timeout(within, dial_one(uri, program)).await {
            Ok(Ok(connection)) => {
                settings.urls.prefer(place);
                return Ok(connection);
            }
            Ok(Err(error)) => refused = error,
            Err(_) => refused = io::Error::from(io::ErrorKind::TimedOut).into(),
        }
    }
    Err(refused)
}

async fn dial_one(mut uri: AMQPUri, program: &str) -> lapin::Result<Connection> {
    uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
    let properties = ConnectionProperties::default().with_connection_name(program.into());
    Connection::connect_uri(uri, properties).await
}

async fn watch_until_lost(connection: &Connection, shutdown: &CancellationToken) {
    let mut events = std::pin::pin!(connection.events_listener());
    while connection.status().connected() {
        tokio::select! {
            event = events.next() => match event {
                // Errors of single channels come here, too; the loop's condition tells whether it is the connection's.
                Some(Event::Error(error)) => tracing::debug!(%error, "broker reports an error"),
                None => return,
                // Whether publishers are blocked is asked of the connection's status when publishing.
                Some(_) => {}
            },
            () = tokio::time::sleep(LOOK) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{BrokerUrls, SettingValue as _};

    /// How long each broker may take to answer, and how long all may take together, in milliseconds.
    fn timeouts(urls: &str) -> (Vec<u128>, u128) {
        let urls = BrokerUrls::read(urls).unwrap();
        let settings = BrokerSettings { urls, prefix: "p".to_owned(), max_length: 1, max_bytes: 1 };
        let each = settings.urls.in_order().map(|(_, uri)| dial_timeout(&settings, &uri).as_millis());
        (each.collect(), longest_connect(&settings).as_millis())
    }

    #[test]
    fn the_url_says_how_long_its_broker_may_take_also_where_that_is_longer_than_its_share() {
        assert_eq!(timeouts("amqp://a,amqp://b"), (vec![4_000, 4_000], 10_000));
        let mixed = "amqp://a?connection_timeout=20000,amqp://b?connection_timeout=50,amqp://c,amqp://d";
        assert_eq!(timeouts(mixed), (vec![20_000, 50, 2_000, 2_000], 26_050));
    }

    #[test]
    fn a_program_is_connected_when_all_of_its_connections_are() {
        let connected = Connected(Mutex::default());
        assert!(!connected.show("consuming", false));
        assert!(!connected.show("publishing", false));
        assert!(!connected.show("publishing", true));
        assert!(connected.show("consuming", true));
        assert!(!connected.show("publishing", false));
    }
}
