//! Notices of dead-lettered deliveries, for operators' tools and alerts. No delivery waits for them: while RabbitMQ does not take
//! them they wait in the database.

use crate::slots::Leases;
use crate::store::{self, Notice};
use common::broker::{Broker, OutgoingMessage, Publisher, Queue, dead_queue_name};
use common::db::{Database, TxError};
use common::log_limit::LogLimit;
use common::{health, limited};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Limits the log lines, by what failed.
static FAILED: LogLimit<2> = LogLimit::new();

/// How often notices are looked for that are not published.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The wait after RabbitMQ has refused or not confirmed one: the dead-letter queue may be full.
const REFUSED_WAIT: Duration = Duration::from_secs(5);
/// Maximum time that the broker may take to confirm a batch.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// Publishes notices.
pub(crate) struct NoticePublisher {
    pub database: Database,
    pub broker: Broker,
    pub prefix: String,
    /// The slots whose deliveries this dispatcher sends.
    pub open: watch::Receiver<Leases>,
    /// Notified of dead-lettered deliveries.
    pub dead: Arc<Notify>,
}

impl NoticePublisher {
    /// Publishes notices until `shutdown`.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let mut publisher = Publisher::new(self.broker.clone(), Queue::Webhooks, "webhooks.dead");
        let queue = dead_queue_name(&self.prefix, Queue::Webhooks);
        let mut turn = store::FIRST;
        while !shutdown.is_cancelled() {
            let has_more = health::watch(self.publish(&mut publisher, &queue, &mut turn)).await.unwrap_or_else(|error| {
                limited!(FAILED[0], warn, %error, "publishing notices of dead-lettered deliveries failed; retrying");
                false
            });
            if !has_more {
                shutdown.run_until_cancelled(timeout(POLL_INTERVAL, self.dead.notified())).await;
            }
        }
    }

    /// Publishes the notices of the tenants whose turn it is. Returns whether more may wait.
    async fn publish(&self, publisher: &mut Publisher, queue: &str, turn: &mut (i16, Uuid)) -> Result<bool, TxError> {
        let slots: Vec<i16> = self.open.borrow().held.iter().map(|lease| lease.slot).collect();
        let began = *turn;
        let (notices, next) = store::load_notices(&self.database, &slots, began).await?;
        *turn = next;
        if notices.is_empty() {
            return Ok(began != store::FIRST);
        }
        let bodies: Vec<String> = notices.iter().map(|notice| notice.meta.to_header()).collect();
        let messages = notices.iter().zip(&bodies).map(|(notice, body)| OutgoingMessage {
            queue,
            meta: body.clone(),
            traceparent: notice.meta.traceparent.clone(),
            body: body.as_bytes(),
        });
        let results = publisher.publish(&messages.collect::<Vec<_>>(), CONFIRM_WITHIN).await;
        let mut outcomes = results.iter().map(Result::is_ok);
        let confirmed: Vec<&Notice> = notices.iter().filter(|_| outcomes.next() == Some(true)).collect();
        store::mark_noticed(&self.database, &confirmed).await?;
        if let Some(Err(error)) = results.iter().find(|result| result.is_err()) {
            limited!(FAILED[1], warn, %error, "RabbitMQ did not take notices of dead-lettered deliveries; they are published later");
            sleep(REFUSED_WAIT).await;
        }
        Ok(true)
    }
}
