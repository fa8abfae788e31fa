//! The running dispatcher: relay, deliveries, graceful shutdown.

use crate::conservation;
use crate::deliver::{Congestion, DeliveryDependencies, DeliveryService};
use crate::gauges;
use crate::relay::{self, Relay};
use crate::send::{Sender, SenderError, SenderSettings};
use crate::settings::Settings;
use common::broker::{Broker, Queue, QueueUse, observe_queues};
use common::db::{Database, PoolSettings};
use common::egress::EgressSettings;
use common::program::{Program, Service};
use common::settings::{DatabaseUrl, Section, Variable};
use common::{activity, critical_task};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Pool connections: relay, replay jobs, lookups, recorder, three for gauges and the counts of the last minutes, one for
/// conservation, and one for the readiness check.
const CONNECTIONS: usize = 9;
/// The time limit for the queues to be declared before the relay starts, and how often it checks.
const DECLARED_WITHIN: Duration = Duration::from_secs(2);
const DECLARED_POLL_INTERVAL: Duration = Duration::from_millis(20);

const QUEUES: QueueUse = QueueUse { publishes: &[], consumes: &[Queue::Webhooks], retry_levels: 0 };

impl Program for Settings {
    const NAME: &'static str = "connect-dispatcher";
    const ABOUT: &'static str = "relays the outbox to RabbitMQ and delivers signed webhooks";
    const METRICS_PORT: u16 = 9103;
    const CHECKS: &'static [&'static str] = &["broker", "consuming", "master_key", "postgres", "publishing"];
    const MORE_VARIABLES: &'static [&'static [Variable]] =
        &[SenderSettings::VARIABLES, EgressSettings::VARIABLES];
    /// The sender cannot be created with these settings.
    type Error = SenderError;

    async fn run(self, service: Service) -> Result<(), SenderError> {
        let sender = Sender::new(&self.sender)?;
        if self.sender.egress.allow_private {
            tracing::warn!(
                "CONNECT_WEBHOOK_ALLOW_PRIVATE is set: receivers may be http:// and on loopback addresses"
            );
        }
        // The broker connections outlive the deliveries, which still publish and acknowledge while they drain.
        let ended = CancellationToken::new();
        let brokers = start_brokers(&self, &service, &ended);
        let [broker, publishing] = brokers.clone();
        let (database, shutdown) = (database(&service.database.url), service.shutdown.clone());
        let consuming = Arc::new(AtomicBool::new(false));
        let congestion = Congestion::default();
        let dependencies = DeliveryDependencies {
            broker: broker.clone(),
            publishing: publishing.clone(),
            queues: service.broker.clone(),
            database: database.clone(),
            sender,
            masters: service.master_keys.clone(),
            schedule: self.webhooks.schedule,
            bounds: self.webhooks.bounds,
            congestion: congestion.clone(),
            consuming: Arc::clone(&consuming),
        };
        let deliveries = DeliveryService::new(dependencies, shutdown.clone());
        let relay = Relay {
            url: service.database.direct_url.clone(),
            database: database.clone(),
            broker: publishing,
            broker_settings: service.broker.clone(),
            congestion,
            direct: deliveries.direct(),
            rescue_after: self.webhooks.rescue_after,
        };
        let verified = CancellationToken::new();
        let relay = run_relay_once_ready(relay, brokers.clone(), verified.clone(), shutdown.clone());
        let relay_task = critical_task::spawn("relay", relay);
        let deliver = deliver_once_verified(deliveries, verified.clone(), shutdown.clone());
        let delivery_task = critical_task::spawn("deliveries", deliver);
        drop(critical_task::spawn("gauges", gauges::observe(database.clone(), shutdown.clone())));
        drop(critical_task::spawn("conservation", conservation::observe(database.clone(), shutdown)));
        tokio::spawn(observe_queues(broker, service.broker.clone()));
        tokio::spawn(activity::write_regularly(database.clone()));
        let is_consuming = move || consuming.load(Ordering::Relaxed);
        let pools = vec![database.clone()];
        tokio::spawn(service.clone().observe_consumer(brokers, pools, verified, is_consuming));

        service.drain(async { tokio::join!(relay_task, delivery_task) }, &database).await;
        ended.cancel();
        Ok(())
    }
}

/// The connection of the consumers and the queues, and the one that publishes.
fn start_brokers(settings: &Settings, service: &Service, ended: &CancellationToken) -> [Broker; 2] {
    let with_retries = QueueUse { retry_levels: settings.webhooks.schedule.levels(), ..QUEUES };
    let (queues, keys) = (&service.broker, service.message_keys());
    [
        Broker::start(queues, keys.clone(), "connect-dispatcher", with_retries, ended.clone()),
        Broker::start(queues, keys, "connect-dispatcher publishing", QUEUES, ended.clone()),
    ]
}

/// Relays the outbox once the master key is verified and the queues are declared, until shutdown.
async fn run_relay_once_ready(
    relay: Relay,
    brokers: [Broker; 2],
    verified: CancellationToken,
    shutdown: CancellationToken,
) {
    let ready = async {
        verified.cancelled().await;
        wait_until_declared(&brokers).await;
    };
    shutdown.run_until_cancelled(ready).await;
    Box::pin(relay::run(relay, shutdown)).await;
}

/// Consumes deliveries once the master key is verified: with another one every message would be dead-lettered as forged.
async fn deliver_once_verified(
    deliveries: DeliveryService,
    verified: CancellationToken,
    shutdown: CancellationToken,
) {
    if shutdown.run_until_cancelled(verified.cancelled()).await.is_some() {
        deliveries.run().await;
    }
}

/// Waits until the brokers are connected: a connection declares its queues before it counts as connected. The retry of a failed
/// first attempt needs the queues. The wait is limited, because successful attempts do not need them.
async fn wait_until_declared(brokers: &[Broker]) {
    let connected = async {
        while !brokers.iter().all(Broker::is_connected) {
            sleep(DECLARED_POLL_INTERVAL).await;
        }
    };
    drop(timeout(DECLARED_WITHIN, connected).await);
}

fn database(url: &DatabaseUrl) -> Database {
    let pool = PoolSettings {
        name: "dispatcher",
        size: CONNECTIONS,
        wait: Duration::from_secs(5),
        statement_timeout: Duration::from_secs(20),
        durable: true,
    };
    Database::new(url, pool)
}
