//! The running dispatcher: its tasks, readiness, graceful shutdown.

use crate::dispatch::{self, DispatchDependencies};
use crate::gauges;
use crate::notices::NoticePublisher;
use crate::record::{self, Recorder};
use crate::replay_jobs::ReplayJobs;
use crate::send::{DeliverySender, Sender, SenderError, SenderSettings};
use crate::settings::Settings;
use crate::slots::{self, Leases, SlotHolder};
use common::broker::{Broker, Queue, QueueUse, observe_queues};
use common::db::{Database, PoolSettings};
use common::egress::EgressSettings;
use common::periodic::ticks;
use common::program::{Program, Service};
use common::settings::{DatabaseUrl, Section, Variable};
use common::{activity, critical_task};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Pool connections: two reads, a look, a drop, the recorder, notices, replay jobs, one for gauges and the counts of the last minutes,
/// and one for the readiness check.
const CONNECTIONS: usize = 9;
/// Two rounds of the fan-out, and one that replaces a connection that hangs.
const UNDURABLE_CONNECTIONS: usize = 3;
const READINESS_INTERVAL: Duration = Duration::from_secs(1);

/// It only publishes notices of dead letters.
const QUEUES: QueueUse = QueueUse { publishes: &[], consumes: &[], notices: &[Queue::Webhooks] };

impl Program for Settings {
    const NAME: &'static str = "connect-dispatcher";
    const ABOUT: &'static str = "fans out the outbox and delivers signed webhooks";
    const METRICS_PORT: u16 = 9103;
    const CHECKS: &'static [&'static str] = &["master_key", "postgres", "slots"];
    const MORE_VARIABLES: &'static [&'static [Variable]] = &[SenderSettings::VARIABLES, EgressSettings::VARIABLES];
    /// The sender cannot be created with these settings.
    type Error = SenderError;

    async fn run(self, service: Service) -> Result<(), SenderError> {
        let sender = Sender::new(&self.sender)?;
        self.sender.egress.warn_if_private();
        [&record::OUTAGE, &dispatch::FAN_OUT_OUTAGE, &dispatch::READ_OUTAGE]
            .into_iter()
            .for_each(common::outage::Outage::register);
        let (dispatcher, shutdown) = (Uuid::now_v7(), service.shutdown.clone());
        let database = database(&service.database.url, CONNECTIONS, true);
        let undurable = self::database(&service.database.url, UNDURABLE_CONNECTIONS, false);
        let ended = CancellationToken::new();
        let (queues, keys) = (&service.broker, service.message_keys());
        let broker = Broker::start(queues, keys, "connect-dispatcher", QUEUES, ended.clone());

        let verified = CancellationToken::new();
        let (dead, (events, received)) = (Arc::new(Notify::new()), unbounded_channel());
        let (give_up, given_up) = unbounded_channel();
        let (open, opened) = watch::channel(Leases { held: Vec::new(), until: Instant::now() });
        let (recorder, records) = Recorder::new(dispatcher, database.clone(), events.clone(), Arc::clone(&dead));
        let holder = SlotHolder { dispatcher, events: events.clone(), given_up, shutdown: shutdown.clone() };
        let notices = NoticePublisher {
            database: database.clone(),
            broker: broker.clone(),
            prefix: service.broker.prefix.clone(),
            open: opened.clone(),
            dead,
        };
        let jobs = ReplayJobs { database: database.clone(), open: opened.clone(), events: events.clone() };
        let dispatching = DispatchDependencies {
            dispatcher,
            undurable: undurable.clone(),
            database: database.clone(),
            sender: DeliverySender::new(sender, service.master_keys.clone(), self.schedule),
            records,
            events,
            give_up,
            open,
            most: self.concurrency,
        };
        let (url, is_verified, ending) = (service.database.direct_url.clone(), verified.clone(), shutdown.clone());
        let work = critical_task::spawn("deliveries", async move {
            // With another master key no secret could be opened.
            if ending.run_until_cancelled(is_verified.cancelled()).await.is_some() {
                let dispatch = dispatch::run(dispatching, received, ending);
                tokio::join!(dispatch, recorder.run(), slots::hold_slots(holder, url));
            }
        });
        drop(critical_task::spawn("notices", notices.run(ended.clone())));
        drop(critical_task::spawn("replay jobs", jobs.run(shutdown.clone())));
        drop(critical_task::spawn("gauges", gauges::observe(database.clone(), shutdown)));
        tokio::spawn(observe_queues(broker, service.broker.clone()));
        tokio::spawn(activity::write_regularly(database.clone()));
        let pools = vec![database.clone(), undurable];
        tokio::spawn(watch_readiness(service.clone(), pools, verified, opened));

        service.drain(work, &database).await;
        ended.cancel();
        Ok(())
    }
}

/// Updates the readiness and the gauges of the pools until the program ends, and cancels `verified` once the master key is verified.
/// It is ready without RabbitMQ, which no delivery waits for, and without slots while others hold all of them, but not without
/// renewing its leases.
async fn watch_readiness(
    service: Service, pools: Vec<Database>, verified: CancellationToken, opened: watch::Receiver<Leases>,
) {
    let mut ticks = ticks(READINESS_INTERVAL);
    loop {
        ticks.tick().await;
        service.health.set("postgres", pools[0].is_writable(READINESS_INTERVAL).await);
        let has_key = pools[0].has_master_key(&service.master_keys, READINESS_INTERVAL).await;
        service.health.set("master_key", has_key);
        if has_key {
            verified.cancel();
        }
        let is_leasing = opened.borrow().until > Instant::now();
        if !is_leasing {
            slots::show(0, 0);
        }
        service.health.set("slots", is_leasing && !service.shutdown.is_cancelled());
        Database::observe(&pools);
    }
}

fn database(url: &DatabaseUrl, size: usize, durable: bool) -> Database {
    let pool = PoolSettings {
        name: "dispatcher",
        size,
        wait: Duration::from_secs(5),
        statement_timeout: Duration::from_secs(20),
        durable,
    };
    Database::new(url, pool)
}
