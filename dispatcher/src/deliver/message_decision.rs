//! Decides before each attempt what to do with a message (D24, D26). Pure.

use crate::store::{DeliveryProgress, Target};
use common::message::DeliveryMeta;
use common::model::DeliveryState;

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageDecision {
    /// Its attempt is recorded already, or its delivery is settled: acknowledge it.
    Acknowledge,
    /// Its delivery is dead-lettered: dead-letter the message as well.
    DeadLetter,
    /// Its subscription was removed: drop the delivery.
    Drop,
    /// Its subscription is paused: park the delivery.
    Park,
    /// The attempt is due.
    Attempt {
        /// Attempts made since the delivery was created or last replayed.
        made: u16,
    },
}

/// Decides by the message's delivery and subscription, either of which may not exist.
pub(super) fn decide_message(
    meta: &DeliveryMeta,
    known: Option<DeliveryProgress>,
    target: Option<&Target>,
) -> MessageDecision {
    // A message may arrive before its delivery is committed by the relay or by the record of the previous attempt.
    let unknown = DeliveryProgress {
        state: DeliveryState::Pending,
        attempts: meta.attempt - 1,
        attempts_before_replay: 0,
    };
    let known = known.unwrap_or(unknown);
    match known.state {
        DeliveryState::Delivered | DeliveryState::Dropped => return MessageDecision::Acknowledge,
        DeliveryState::DeadLettered => return MessageDecision::DeadLetter,
        // The attempt of this message was made, and its follow-up message was published.
        DeliveryState::Pending if meta.attempt <= known.attempts => return MessageDecision::Acknowledge,
        DeliveryState::Pending => {}
    }
    match target {
        None => MessageDecision::Drop,
        Some(target) if target.is_removed || target.tenant_id != meta.tenant_id.0 => MessageDecision::Drop,
        Some(target) if target.is_paused => MessageDecision::Park,
        Some(_) => {
            let made = known.attempts.max(meta.attempt - 1) - known.attempts_before_replay;
            MessageDecision::Attempt { made: u16::try_from(made).unwrap_or(0) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::model::TenantId;
    use uuid::Uuid;

    fn meta(attempt: i16) -> DeliveryMeta {
        DeliveryMeta {
            tenant_id: TenantId(Uuid::from_u128(1)),
            delivery_id: Uuid::from_u128(2),
            subscription_id: Uuid::from_u128(3),
            event_id: Uuid::from_u128(4),
            event_type: "lead.assigned".to_owned(),
            attempt,
            published_at: chrono::DateTime::UNIX_EPOCH,
            traceparent: None,
            request_id: None,
        }
    }

    fn target(is_paused: bool, is_removed: bool) -> Target {
        Target {
            tenant_id: Uuid::from_u128(1),
            slug: "a".to_owned(),
            url_sealed: Vec::new(),
            sealed: Vec::new(),
            is_paused,
            is_removed,
        }
    }

    fn known(state: DeliveryState, attempts: i16, attempts_before_replay: i16) -> Option<DeliveryProgress> {
        Some(DeliveryProgress { state, attempts, attempts_before_replay })
    }

    fn active(attempt: i16, known: Option<DeliveryProgress>) -> MessageDecision {
        decide_message(&meta(attempt), known, Some(&target(false, false)))
    }

    #[test]
    fn attempts_a_message_until_its_attempt_is_recorded() {
        assert_eq!(active(1, known(DeliveryState::Pending, 0, 0)), MessageDecision::Attempt { made: 0 });
        assert_eq!(active(1, known(DeliveryState::Pending, 1, 0)), MessageDecision::Acknowledge);
        assert_eq!(active(2, known(DeliveryState::Pending, 1, 0)), MessageDecision::Attempt { made: 1 });
        assert_eq!(active(2, known(DeliveryState::Pending, 2, 0)), MessageDecision::Acknowledge);
    }

    #[test]
    fn attempts_a_message_whose_delivery_is_not_committed_yet() {
        assert_eq!(active(1, None), MessageDecision::Attempt { made: 0 });
        assert_eq!(active(2, None), MessageDecision::Attempt { made: 1 });
    }

    #[test]
    fn settled_and_dead_lettered_deliveries_are_not_attempted_again() {
        assert_eq!(active(3, known(DeliveryState::Delivered, 2, 0)), MessageDecision::Acknowledge);
        assert_eq!(active(3, known(DeliveryState::Dropped, 2, 0)), MessageDecision::Acknowledge);
        assert_eq!(active(7, known(DeliveryState::DeadLettered, 6, 0)), MessageDecision::DeadLetter);
    }

    #[test]
    fn a_replay_restarts_the_schedule() {
        assert_eq!(active(7, known(DeliveryState::Pending, 6, 6)), MessageDecision::Attempt { made: 0 });
        assert_eq!(active(9, known(DeliveryState::Pending, 8, 6)), MessageDecision::Attempt { made: 2 });
    }

    #[test]
    fn checks_the_subscription_before_each_attempt() {
        let pending = known(DeliveryState::Pending, 0, 0);
        assert_eq!(decide_message(&meta(1), pending, Some(&target(true, false))), MessageDecision::Park);
        assert_eq!(decide_message(&meta(1), pending, Some(&target(false, true))), MessageDecision::Drop);
        assert_eq!(decide_message(&meta(1), pending, Some(&target(true, true))), MessageDecision::Drop);
        assert_eq!(decide_message(&meta(1), pending, None), MessageDecision::Drop);
        let foreign = Target { tenant_id: Uuid::from_u128(9), ..target(false, false) };
        assert_eq!(decide_message(&meta(1), pending, Some(&foreign)), MessageDecision::Drop);
        assert_eq!(
            decide_message(&meta(1), known(DeliveryState::Delivered, 1, 0), Some(&target(true, false))),
            MessageDecision::Acknowledge
        );
    }
}
