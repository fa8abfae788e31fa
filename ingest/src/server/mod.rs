//! Starts the services of ingest, runs the server, and shuts both down in order.

mod background;
mod routes;

use crate::admission::{Backlog, report_pressure};
use crate::auth::{Auth, AuthFailure, KeyUses, Keys, watch_keys};
use crate::docs::DocsSettings;
use crate::handlers::Services;
use crate::handlers::feed::FeedWaits;
use crate::http::observe::observe_request;
use crate::http::route::{EndpointKind, Route};
use crate::publish::QueuePublisher;
use crate::publish::events::EventPublisher;
use crate::publish::writes::WritePublisher;
use crate::reads::{ReadLimit, ReadPools, RecordReader, ReplicaLag, observe_replica};
use crate::refusal::OverloadReason;
use crate::refused::KeyRequestRecorder;
use crate::replay::ReplayStore;
use crate::replay::partitions::{ReplayPartitions, maintain_partitions};
use crate::settings::Settings;
use background::{BROKER, MASTER_KEY, POSTGRES, REPLAY_STORE};
use common::broker::{Broker, Queue, QueueUse, Rpc, observe_queues};
use common::db::{Database, PoolSettings};
use common::http::{
    self, BodyReader, ConnectionRefusal, ConnectionTimes, RequestOrigin, ServerSettings, TrustedProxies,
};
use common::metrics::{AUTH_FAILURES, HTTP_CONNECTIONS_REFUSED, HTTP_REQUESTS, OVERLOADED, register_counter};
use common::program::{ACCEPTING, Program, Service};
use common::settings::{DatabaseSettings, DatabaseUrl, Section, Variable};
use common::{critical_task, health};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::service::TowerToHyperService;
use routes::routes;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Connections of the replay store: its own, and one for readiness.
const REPLAY_CONNECTIONS: usize = ReplayStore::CONNECTIONS + 1;
/// Connections for partitions and reports, which may wait for locks, and must not use up those of the replay store.
const BACKGROUND_CONNECTIONS: usize = 1;
/// Time kept for closing the broker's connection after the drain.
const CLOSING: Duration = Duration::from_millis(500);

/// It publishes and gets its replies without a queue of its own.
const QUEUES: QueueUse = QueueUse { publishes: &[Queue::Events, Queue::Records], consumes: &[], notices: &[] };

impl Program for Settings {
    const NAME: &'static str = "connect-ingest";
    const ABOUT: &'static str = "checks requests, publishes them and responds with results";
    const METRICS_PORT: u16 = 9101;
    const CHECKS: &'static [&'static str] = &[POSTGRES, REPLAY_STORE, MASTER_KEY, BROKER, ACCEPTING];
    const MORE_VARIABLES: &'static [&'static [Variable]] =
        &[TrustedProxies::VARIABLES, ConnectionTimes::VARIABLES, DocsSettings::VARIABLES];
    /// The address that cannot be bound.
    type Error = io::Error;

    async fn run(self, service: Service) -> io::Result<()> {
        register_counters();
        let addr = self.addr;
        let listener = TcpListener::bind(addr)
            .await
            .map_err(|error| health::cannot_listen("CONNECT_INGEST_ADDR", addr, &error))?;

        // Cancelled only after the drain: requests under way need the broker until then.
        let broker_closes = CancellationToken::new();
        let keys = service.message_keys();
        let broker = Broker::start(&service.broker, keys, "connect-ingest", QUEUES, broker_closes.clone());
        tokio::spawn(observe_queues(broker.clone(), service.broker.clone()));
        let (services, key_uses, refused) = start_services(&self, &service, &broker, &broker_closes);

        tracing::info!(addr = %listener.local_addr()?, "listening for API requests");
        service.start_accepting();
        let within = service.shutdown_timeout;
        let server = ServerSettings {
            limits: self.connections,
            proxies: self.trusted_proxies.networks(),
            drain_within: within.saturating_sub(2 * CLOSING).max(within / 2),
            is_observed: true,
        };
        let routes = TowerToHyperService::new(warp::service(routes(services, &self.docs)));
        let requests = |connection| {
            let (routes, proxies) = (routes.clone(), self.trusted_proxies.clone());
            service_fn(move |request: Request<Incoming>| {
                let (routes, origin) = (routes.clone(), RequestOrigin::of(&connection, &proxies, request.headers()));
                async move { observe_request(&routes, request, origin).await }
            })
        };
        http::serve(listener, server, requests, &service.shutdown).await;
        broker_closes.cancel();
        // Uses that are not written in time are lost; the next request of each key is noted again.
        let written = timeout(CLOSING, Box::pin(async { tokio::join!(key_uses.write(), refused.write()) }));
        // A clean close only spares the broker a warning, so the wait is short.
        tokio::join!(async { drop(timeout(CLOSING, broker.closed()).await) }, async { drop(written.await) });
        Ok(())
    }
}

/// Registers the counters whose labels are known in advance, at 0, so that they are exported before the first event.
fn register_counters() {
    for failure in AuthFailure::ALL {
        register_counter(AUTH_FAILURES, &[("reason", failure.as_str())]);
    }
    for bound in OverloadReason::ALL {
        register_counter(OVERLOADED, &[("reason", bound.as_str())]);
    }
    for refusal in ConnectionRefusal::ALL {
        register_counter(HTTP_CONNECTIONS_REFUSED, &[("reason", refusal.as_str())]);
    }
    for route in Route::ALL {
        for endpoint in route.endpoints() {
            let success = if endpoint.kind() == EndpointKind::Create { "201" } else { "200" };
            for status in [success, "500", "503"] {
                let labels = [("route", route.pattern()), ("method", endpoint.method()), ("status", status)];
                register_counter(HTTP_REQUESTS, &labels);
            }
        }
    }
}

/// Starts the services and the background tasks.
fn start_services(
    ingest: &Settings, service: &Service, broker: &Broker, broker_closes: &CancellationToken,
) -> (Arc<Services>, KeyUses, KeyRequestRecorder) {
    let (url, read_url) = (&service.database.url, &service.database.read_url);
    let replay_db = pool(url, "ingest_replay", REPLAY_CONNECTIONS, ingest.store_timeout);
    let background_db = pool(url, "ingest_background", BACKGROUND_CONNECTIONS, ingest.store_timeout);
    let read_pools = |url, name| {
        ReadPools::new(ingest.read_connections as usize, |size| pool(url, name, size, ingest.store_timeout))
    };
    let primary_reads = read_pools(url, "ingest_reads");
    let replica_reads = (read_url != url).then(|| read_pools(read_url, "ingest_replica_reads"));
    let partitions = ReplayPartitions::new(background_db.clone());
    let replays = Arc::new(ReplayStore::start(replay_db.clone(), partitions.clone(), ingest.store_timeout));
    let lag = Arc::new(ReplicaLag::new(service.database.read_max_lag));
    let replica = replica_reads.as_ref().map(|pools| (pools, Arc::clone(&lag)));
    let reads = RecordReader::start(Arc::clone(&replays), &primary_reads, replica, ingest.store_timeout);
    let keys = Arc::new(Keys::new(service.master_keys.clone()));
    let queues = [Queue::Events, Queue::Records].map(|queue| {
        let rpc = Rpc::start(broker, queue, broker_closes.clone());
        QueuePublisher::new(rpc, Backlog::new(queue, ingest.backlog_target))
    });
    let [event_queue, write_queue] = queues.clone();

    let read_pools = [Some(&primary_reads), replica_reads.as_ref()].into_iter().flatten();
    let pools = [replay_db.clone(), background_db.clone()].into_iter();
    let pools = pools.chain(read_pools.flat_map(|pools| pools.all().iter().cloned())).collect();
    if replica_reads.is_some() {
        tokio::spawn(watch_replica(&service.database, ingest.store_timeout, lag));
    }
    critical_task::spawn("keys", watch_keys(service.database.direct_url.clone(), Arc::clone(&keys)));
    critical_task::spawn("replay partitions", maintain_partitions(partitions));
    let uses = KeyUses::new(background_db.clone());
    tokio::spawn(uses.clone().write_regularly());
    let refused = KeyRequestRecorder::new(background_db.clone());
    tokio::spawn(refused.clone().write_regularly());
    tokio::spawn(background::observe_pools(pools));
    let backlogs = queues.iter().map(|queue| queue.backlog().clone()).collect();
    tokio::spawn(report_pressure(background_db, backlogs));
    let (masters, health) = (service.master_keys.clone(), service.health.clone());
    critical_task::spawn(
        "readiness",
        background::watch_readiness(replay_db, masters, Arc::clone(&keys), queues, health),
    );
    let events = EventPublisher::new(event_queue, ingest.publish_timeout, ingest.reply_timeout);
    let services = Arc::new(Services {
        bodies: BodyReader::new(ingest.max_body, ingest.body_timeout, ingest.body_budget),
        auth: Auth::new(keys, uses.clone(), ingest.store_timeout),
        refused: refused.clone(),
        replays,
        events,
        writes: WritePublisher::new(write_queue, ingest.publish_timeout, ingest.reply_timeout),
        reads,
        read_limit: ReadLimit::default(),
        feed_waits: FeedWaits::new(service.shutdown.clone()),
    });
    (services, uses, refused)
}

/// Measures the lag of the replica on connections of its own, so that it does not wait for requests.
fn watch_replica(
    database: &DatabaseSettings, within: Duration, lag: Arc<ReplicaLag>,
) -> impl Future<Output = ()> + use<> {
    let name = "ingest_replica_lag";
    let primary = PoolSettings { name, size: 1, wait: within, statement_timeout: within, durable: true };
    // Durable, because the replica would otherwise get the heartbeat only when the WAL is written next.
    let primary = Database::new(&database.url, primary);
    observe_replica(lag, primary, pool(&database.read_url, name, 1, within), within)
}

fn pool(url: &DatabaseUrl, name: &'static str, size: usize, within: Duration) -> Database {
    // Replay entries need not wait for the disk. Everything that their requests change is committed later, and durably, so a
    // crash of the server can only lose entries of requests that were not applied either.
    let pool_settings = PoolSettings { name, size, wait: within, statement_timeout: within, durable: false };
    Database::new(url, pool_settings)
}
