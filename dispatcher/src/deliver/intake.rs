//! Deliveries from the queue: what was paused waits in the database, what was removed is dropped, what is done already is
//! forgotten, the rest goes to its lane.

use super::entry::{Entry, Opened};
use super::job::Job;
use super::judge::{Judgement, judge};
use super::origin::Origin;
use super::scheduler::{AttemptScheduler, observe_lag};
use crate::store::{self, Known, Target};
use common::broker::{Intake, Queue, Receipt, Received, log_dead_letter};
use common::clock;
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::message::DeliveryMeta;
use futures_util::try_join;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Which failed look-ups are logged.
static FAILED: LogLimit<1> = LogLimit::new();

/// Wait between tries while the database can't be reached.
const OUTAGE_WAIT: Duration = Duration::from_millis(250);

/// Takes deliveries from the queue.
pub(super) struct DeliveryIntake {
    pub(super) scheduler: Arc<AttemptScheduler>,
    pub(super) database: Database,
    pub(super) consuming: Arc<AtomicBool>,
    pub(super) shutdown: CancellationToken,
}

impl Intake for DeliveryIntake {
    const DEATHS: &'static [&'static str] = &["metadata", "attempts", "record"];

    async fn take(&mut self, unit: Vec<Received>) {
        let mut messages = Vec::with_capacity(unit.len());
        for Received { message, receipt } in unit {
            let meta =
                message.meta.as_deref().and_then(|meta| serde_json::from_str::<DeliveryMeta>(meta).ok());
            match meta.filter(|meta| meta.attempt > 0) {
                Some(meta) => messages.push(Taken { meta, body: message.body, receipt }),
                None => {
                    let reason = "metadata";
                    message.span().in_scope(|| log_dead_letter(Queue::Webhooks, reason));
                    receipt.dead(reason).await;
                }
            }
        }
        while !messages.is_empty() {
            match self.look(&messages).await {
                Ok(looked) => return self.decide(messages, &looked).await,
                Err(error) => limited!(FAILED[0], warn, %error, "can't look at deliveries, trying again"),
            }
            if self.shutdown.run_until_cancelled(sleep(OUTAGE_WAIT)).await.is_none() {
                for Taken { receipt, .. } in messages {
                    receipt.back().await;
                }
                return;
            }
        }
    }

    fn consuming(&mut self, is_consuming: bool) {
        self.consuming.store(is_consuming, Ordering::Relaxed);
    }
}

/// A message whose metadata was read.
struct Taken {
    meta: DeliveryMeta,
    body: Vec<u8>,
    receipt: Receipt,
}

/// What is known of a unit's deliveries and subscriptions.
struct Looked {
    deliveries: HashMap<Uuid, Known>,
    targets: HashMap<Uuid, Target>,
}

impl DeliveryIntake {
    async fn look(&self, messages: &[Taken]) -> Result<Looked, TxError> {
        let asked: Vec<(Uuid, Uuid)> =
            messages.iter().map(|taken| (taken.meta.tenant_id.0, taken.meta.delivery_id)).collect();
        let subscriptions: BTreeSet<Uuid> = messages.iter().map(|taken| taken.meta.subscription_id).collect();
        let subscriptions: Vec<Uuid> = subscriptions.into_iter().collect();
        let client = self.database.client().await?;
        let (deliveries, targets) =
            try_join!(store::known(&client, &asked), store::targets(&client, &subscriptions, clock::now()))?;
        Ok(Looked { deliveries, targets })
    }

    async fn decide(&self, messages: Vec<Taken>, looked: &Looked) {
        let scheduler = &self.scheduler;
        for Taken { meta, body, receipt } in messages {
            observe_lag(&meta);
            let known = looked.deliveries.get(&meta.delivery_id).copied();
            let target = looked.targets.get(&meta.subscription_id);
            match (judge(&meta, known, target), target) {
                (Judgement::Done, _) => receipt.done().await,
                (Judgement::Dead, _) => scheduler.dead_letters.take(receipt, "attempts").await,
                (Judgement::Drop, _) => {
                    scheduler.hand_in(Entry::dropped(meta, body.into(), Origin::Queue(receipt))).await;
                }
                (Judgement::Park, _) | (Judgement::Attempt { .. }, None) => {
                    let origin = Origin::Queue(receipt);
                    let parked = Entry::parked(meta, body.into(), origin, Duration::ZERO, Opened::No);
                    scheduler.hand_in(parked).await;
                }
                (Judgement::Attempt { made }, Some(target)) => {
                    self.admit(Taken { meta, body, receipt }, target, made).await;
                }
            }
        }
        scheduler.start();
    }

    async fn admit(&self, Taken { meta, body, receipt }: Taken, target: &Target, made: u16) {
        let Some(origin) = self.scheduler.open.begin(&meta, Origin::Queue(receipt)) else { return };
        let subscription = meta.subscription_id;
        let endpoint = self.scheduler.endpoints.of(subscription, target);
        let job = Job { meta, body: body.into(), origin, endpoint, made };
        let admitted = self.scheduler.lanes().admit(subscription, job, Instant::now());
        if let Err(away) = admitted {
            self.scheduler.put_off(away).await;
        }
    }
}
