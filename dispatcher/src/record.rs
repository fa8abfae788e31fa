//! Records the results of attempts, many together.
//!
//! An attempt whose result cannot be recorded in time is repeated by whoever holds its slot then, with the same id.

use crate::dispatch::Event;
use crate::store::{self, AttemptRecord};
use common::db::{Database, TxError, column};
use common::log_limit::LogLimit;
use common::model::{DeliveryState, TenantId};
use common::outage::Outage;
use common::{activity, clock, health, limited};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Limits the log lines, by reason: results that are refused, and those of slots that were lost.
static UNRECORDED: LogLimit<2> = LogLimit::new();

/// Most results of one transaction.
const BATCH_MAX: usize = 512;
/// Shortest time between the starts of two transactions. The first result after a pause is written at once, later ones are
/// batched. The delay affects no receiver, because the webhook was sent.
const BATCH_INTERVAL: Duration = Duration::from_millis(4);
pub(crate) static OUTAGE: Outage = Outage::new("record deliveries", "recording deliveries failed; retrying");
/// The wait until results are recorded again whose deliveries other transactions have locked.
const LOCKED_WAIT: Duration = Duration::from_millis(250);
/// The wait between retries while the database is unavailable.
const OUTAGE_WAIT: Duration = Duration::from_millis(250);

/// A result, and when its attempt ended. No attempt begins while too many wait ([`room`](crate::due::DueDeliveries::room)).
pub(crate) type Pending = (AttemptRecord, Instant);

/// Records results.
pub(crate) struct Recorder {
    pub dispatcher: Uuid,
    pub database: Database,
    pub events: UnboundedSender<Event>,
    /// Notified of dead-lettered deliveries.
    pub dead: Arc<Notify>,
    results: UnboundedReceiver<Pending>,
    /// The queue's other end, which does not keep it open: the dispatcher does as long as results wait.
    queue: WeakUnboundedSender<Pending>,
}

impl Recorder {
    pub(crate) fn new(
        dispatcher: Uuid, database: Database, events: UnboundedSender<Event>, dead: Arc<Notify>,
    ) -> (Self, UnboundedSender<Pending>) {
        let (sender, results) = unbounded_channel();
        let queue = sender.downgrade();
        (Self { dispatcher, database, events, dead, results, queue }, sender)
    }

    /// Records results until all senders are dropped.
    pub(crate) async fn run(mut self) {
        let mut batch = Vec::new();
        while self.results.recv_many(&mut batch, BATCH_MAX).await > 0 {
            let next = Instant::now() + BATCH_INTERVAL;
            health::watch(self.write(std::mem::take(&mut batch))).await;
            sleep_until(next).await;
        }
    }

    async fn write(&self, batch: Vec<Pending>) {
        let now = Instant::now();
        // The next attempt is due at its time after the end of this one, or slightly later.
        let since_end = |(record, ended): Pending| AttemptRecord {
            due_in: record.due_in.map(|due_in| due_in.saturating_sub(now - ended)),
            ..record
        };
        let batch: Vec<AttemptRecord> = batch.into_iter().map(since_end).collect();
        if let Ok(locked) = self.record(&batch).await {
            return self.tell(batch, &locked, now);
        }
        // One of them is refused. The others are recorded all the same.
        for one in batch {
            match self.record_alone(&one).await {
                Ok(locked) => self.tell(vec![one], &locked, now),
                Err(_) => drop(self.events.send(Event::Refused(one))),
            }
        }
    }

    /// Tells the loop what was recorded, and queues what is `locked`, by index, again.
    fn tell(&self, mut batch: Vec<AttemptRecord>, locked: &HashSet<usize>, now: Instant) {
        let mut indexes = 0..batch.len();
        let locked: Vec<AttemptRecord> =
            batch.extract_if(.., |_| indexes.next().is_some_and(|index| locked.contains(&index))).collect();
        drop(self.events.send(Event::Recorded(batch)));
        if let Some(queue) = self.queue.upgrade().filter(|_| !locked.is_empty()) {
            drop(self.events.send(Event::Locked(column(&locked, |one| (one.subscription_id, one.number)))));
            tokio::spawn(async move {
                sleep(LOCKED_WAIT).await;
                locked.into_iter().for_each(|record| drop(queue.send((record, now))));
            });
        }
    }

    /// A result that the database refuses is replaced by one that says so. The error if it refuses that as well.
    async fn record_alone(&self, record: &AttemptRecord) -> Result<HashSet<usize>, TxError> {
        let recorded = self.record(std::slice::from_ref(record)).await;
        let Err(error) = recorded else { return recorded };
        let delivery_id = record.delivery_id;
        limited!(UNRECORDED[0], error, %delivery_id, %error, "recording the result of an attempt failed; dead-lettering the delivery");
        let instead = AttemptRecord {
            state: DeliveryState::DeadLettered,
            due_in: None,
            at: clock::database_now(),
            status: None,
            error: Some("the result of the attempt cannot be recorded".to_owned()),
            response: None,
            headers: None,
            duration_ms: 0,
            ..record.clone()
        };
        self.record(&[instead]).await
    }

    /// Returns the indexes of results whose deliveries are locked.
    async fn record(&self, batch: &[AttemptRecord]) -> Result<HashSet<usize>, TxError> {
        // When all retries after conflicts are used up, the error is handled like an outage.
        let is_outage = |error: &TxError| !matches!(error, TxError::StatementFailed(_) | TxError::Abandoned(_));
        // It is waited for during a drain, too.
        let never = CancellationToken::new();
        let write = || store::record(&self.database, self.dispatcher, batch);
        let written = OUTAGE.wait_out(OUTAGE_WAIT, &never, is_outage, write).await;
        let (count, locked) = written.unwrap_or_else(|| Ok((0, HashSet::new())))?;
        let count = batch.len() - locked.len() - count;
        if count > 0 {
            limited!(
                UNRECORDED[1],
                warn,
                count,
                "results of attempts were not recorded: their slots were taken by other dispatchers, or they are on record already"
            );
        }
        // A test event that failed needs nobody's attention.
        let is_counted = |(index, record): &(usize, &AttemptRecord)| {
            !locked.contains(index) && record.state != DeliveryState::Dropped
        };
        for (_, record) in batch.iter().enumerate().filter(is_counted) {
            let error = match record.status {
                _ if record.state == DeliveryState::Delivered => None,
                Some(status) => Some(format!("status {status}")),
                None => Some(record.error.clone().unwrap_or_default()),
            };
            activity::count_attempt(TenantId(record.tenant_id), record.subscription_id, error);
        }
        if batch.iter().any(|record| record.state == DeliveryState::DeadLettered) {
            self.dead.notify_one();
        }
        Ok(locked)
    }
}
