//! Checks whether the events of messages without a reply are settled.
//!
//! A check is a message for the worker with the same events. The worker counts those that were applied, and decides about the
//! others as usual, without applying them: one that fails now is taken as failed.

use super::EventAccounts;
use super::totals::UnrepliedMessage;
use crate::publish::QueuePublisher;
use crate::publish::events::batch_message;
use common::broker::{Broker, Queue};
use common::clock;
use common::message::{BatchMeta, BatchPart, CheckReply};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};
use uuid::Uuid;

/// How often messages that are due are looked for.
const EVERY: Duration = Duration::from_secs(5);
/// How long the broker may take to confirm a check.
const CONFIRM_WITHIN: Duration = Duration::from_secs(1);
/// How long the worker may take to reply to it.
const REPLY_WITHIN: Duration = Duration::from_secs(5);

/// Checks messages, one at a time, while the queue of events is empty: a check must not come before its message, nor delay
/// waiting events. Runs until the program ends.
pub(crate) async fn check_unreplied(accounts: EventAccounts, broker: Broker, queue: QueuePublisher) {
    let mut next = interval(EVERY);
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        next.tick().await;
        accounts.forget_old();
        // Messages that become due meanwhile are checked in the next pass.
        let now = Instant::now();
        while let Some(message) = accounts.next_due(now) {
            if !is_empty(&broker).await {
                break;
            }
            match count_settled(&queue, &message).await {
                Some(settled) => accounts.record_check(&message, settled),
                None => {
                    accounts.postpone(&message);
                    break;
                }
            }
        }
    }
}

async fn is_empty(broker: &Broker) -> bool {
    let depth = broker.depth(&broker.queue_name(Queue::Events)).await;
    depth.is_some_and(|depth| depth.ready == 0)
}

/// The number of settled events of a message; `None` without a reply.
async fn count_settled(queue: &QueuePublisher, message: &UnrepliedMessage) -> Option<u64> {
    let now = Instant::now();
    let meta = check_meta(&message.meta);
    let check = batch_message(&meta, message.body.clone(), now + CONFIRM_WITHIN, now + REPLY_WITHIN);
    let reply = queue.call(&check, Vec::new(), || ()).await.ok()?;
    settled_of(&reply)
}

/// What a worker of the previous release replies: it has applied the events, and each has a result.
#[derive(Deserialize)]
struct PreviousReply {
    accepted: u64,
    duplicate: u64,
    failed: u64,
}

fn settled_of(reply: &[u8]) -> Option<u64> {
    if let Ok(CheckReply { settled }) = serde_json::from_slice(reply) {
        return Some(settled);
    }
    let PreviousReply { accepted, duplicate, failed } = serde_json::from_slice(reply).ok()?;
    Some(accepted + duplicate + failed)
}

/// The metadata of a check. Its id differs from the message's, so that the message's own events are not taken for a redelivery. It
/// does not continue the traces of the requests.
fn check_meta(meta: &BatchMeta) -> BatchMeta {
    BatchMeta {
        request_id: Uuid::now_v7(),
        published_at: clock::now(),
        traceparent: None,
        parts: meta.parts.iter().map(|part| BatchPart { traceparent: None, ..part.clone() }).collect(),
        check_of: Some(meta.request_id),
        ..meta.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_the_previous_release_has_a_result_for_each_event() {
        assert_eq!(settled_of(br#"{"settled":2}"#), Some(2));
        assert_eq!(settled_of(br#"{"accepted":1,"duplicate":2,"failed":3,"results":[]}"#), Some(6));
        assert_eq!(settled_of(b"{}"), None);
    }
}
