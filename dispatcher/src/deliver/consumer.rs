//! Deliveries from the queue: those of a paused subscription are parked, those of a removed one are dropped, those already
//! recorded are acknowledged, dead-lettered ones have their message dead-lettered, and the others go to their lanes.

use super::attempt_job::AttemptJob;
use super::delivery_update::{DeliveryUpdate, Tracked};
use super::message_decision::{MessageDecision, decide_message};
use super::scheduler::{AttemptScheduler, observe_lag};
use super::source::DeliverySource;
use crate::store::{self, DeliveryProgress, Target};
use common::broker::{AckHandle, MessageHandler, Queue, Received, log_dead_letter};
use common::clock;
use common::db::{Database, TxError};
use common::message::DeliveryMeta;
use common::outage::Outage;
use common::retry::RetryWaits;
use futures_util::try_join;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Waits between retries while the database is unavailable.
pub(super) static OUTAGE: Outage =
    Outage::new("look up deliveries", "looking up deliveries failed; retrying");
const OUTAGE_WAITS: RetryWaits = RetryWaits::every(Duration::from_millis(250));

/// Handles the messages of the webhooks queue.
pub(super) struct DeliveryConsumer {
    pub(super) scheduler: Arc<AttemptScheduler>,
    pub(super) database: Database,
    pub(super) consuming: Arc<AtomicBool>,
    pub(super) shutdown: CancellationToken,
}

impl MessageHandler for DeliveryConsumer {
    const DEAD_LETTER_REASONS: &'static [&'static str] = &["metadata", "attempts", "record"];

    async fn handle_messages(&mut self, received: Vec<Received>) {
        let mut messages = Vec::with_capacity(received.len());
        for Received { message, ack } in received {
            let meta =
                message.meta.as_deref().and_then(|meta| serde_json::from_str::<DeliveryMeta>(meta).ok());
            match meta.filter(|meta| meta.attempt > 0) {
                Some(meta) => messages.push(ParsedMessage { meta, body: message.body, ack }),
                None => {
                    let reason = "metadata";
                    message.span().in_scope(|| log_dead_letter(Queue::Webhooks, reason));
                    ack.dead_letter(reason).await;
                }
            }
        }
        if messages.is_empty() {
            return;
        }
        let look_up = || self.look_up(&messages);
        let looked_up = OUTAGE.wait_out(OUTAGE_WAITS, &self.shutdown, |_| true, look_up).await;
        match looked_up {
            Some(Ok(lookup)) => self.decide(messages, &lookup).await,
            Some(Err(_)) | None => {
                for ParsedMessage { ack, .. } in messages {
                    ack.requeue().await;
                }
            }
        }
    }

    fn set_consuming(&mut self, is_consuming: bool) {
        self.consuming.store(is_consuming, Ordering::Relaxed);
    }
}

/// A message with parsed metadata.
struct ParsedMessage {
    meta: DeliveryMeta,
    body: Vec<u8>,
    ack: AckHandle,
}

/// The stored deliveries and subscriptions of a group of messages.
struct DeliveryLookup {
    deliveries: HashMap<Uuid, DeliveryProgress>,
    targets: HashMap<Uuid, Target>,
}

impl DeliveryConsumer {
    async fn look_up(&self, messages: &[ParsedMessage]) -> Result<DeliveryLookup, TxError> {
        let keys: Vec<(Uuid, Uuid)> =
            messages.iter().map(|message| (message.meta.tenant_id.0, message.meta.delivery_id)).collect();
        let subscriptions: BTreeSet<Uuid> =
            messages.iter().map(|message| message.meta.subscription_id).collect();
        let subscriptions: Vec<Uuid> = subscriptions.into_iter().collect();
        let client = self.database.client().await?;
        let (deliveries, targets) = try_join!(
            store::load_progress(&client, &keys),
            store::load_targets(&client, &subscriptions, clock::now())
        )?;
        Ok(DeliveryLookup { deliveries, targets })
    }

    async fn decide(&self, messages: Vec<ParsedMessage>, lookup: &DeliveryLookup) {
        let scheduler = &self.scheduler;
        for ParsedMessage { meta, body, ack } in messages {
            observe_lag(&meta);
            let known = lookup.deliveries.get(&meta.delivery_id).copied();
            let target = lookup.targets.get(&meta.subscription_id);
            match (decide_message(&meta, known, target), target) {
                (MessageDecision::Acknowledge, _) => ack.acknowledge().await,
                (MessageDecision::DeadLetter, _) => {
                    scheduler.dead_letter_queue.dead_letter(ack, "attempts").await;
                }
                (MessageDecision::Drop, _) => {
                    scheduler
                        .submit(DeliveryUpdate::dropped(meta, body.into(), DeliverySource::Queue(ack)))
                        .await;
                }
                // A decision to attempt always has a target; without one nothing can be sent.
                (MessageDecision::Park, _) | (MessageDecision::Attempt { .. }, None) => {
                    let source = DeliverySource::Queue(ack);
                    let parked =
                        DeliveryUpdate::parked(meta, body.into(), source, Duration::ZERO, Tracked::No);
                    scheduler.submit(parked).await;
                }
                (MessageDecision::Attempt { made }, Some(target)) => {
                    self.admit(ParsedMessage { meta, body, ack }, target, made).await;
                }
            }
        }
        scheduler.start();
    }

    async fn admit(&self, ParsedMessage { meta, body, ack }: ParsedMessage, target: &Target, made: u16) {
        let Some(source) = self.scheduler.unrecorded.begin(&meta, DeliverySource::Queue(ack)) else { return };
        let subscription = meta.subscription_id;
        let endpoint = self.scheduler.endpoints.of(subscription, target);
        let job = AttemptJob { meta, body: body.into(), source, endpoint, made };
        let admitted = self.scheduler.lanes().admit(subscription, job, Instant::now());
        if let Err(to_park) = admitted {
            self.scheduler.park_job(to_park).await;
        }
    }
}
