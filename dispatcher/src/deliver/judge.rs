//! What is to become of a message (D24, D26). Pure: looks at what is known before each attempt.

use crate::store::{Known, State, Target};
use common::message::DeliveryMeta;

/// What is to become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Its attempt is on record already, or its delivery has ended: forget it.
    Done,
    /// Its delivery is a dead letter: so is the message.
    Dead,
    /// Its subscription was removed: end the delivery.
    Drop,
    /// Its subscription is paused: wait in the database.
    Park,
    /// Try it; this many attempts were made since the last replay.
    Attempt {
        /// Attempts made since the delivery was made, or last replayed.
        made: u16,
    },
}

/// Judges a message by its delivery and its subscription; either may not be there.
pub(super) fn judge(meta: &DeliveryMeta, known: Option<Known>, target: Option<&Target>) -> Judgement {
    // A message may come before its delivery is committed, by the relay or by the record of the attempt before.
    let unknown = Known { state: State::Pending, attempts: meta.attempt - 1, attempts_before: 0 };
    let known = known.unwrap_or(unknown);
    match known.state {
        State::Delivered | State::Dropped => return Judgement::Done,
        State::Dead => return Judgement::Dead,
        // The attempt that it stands for was made: what followed from it is in the queue, too.
        State::Pending if meta.attempt <= known.attempts => return Judgement::Done,
        State::Pending => {}
    }
    match target {
        None => Judgement::Drop,
        Some(target) if target.is_removed || target.tenant_id != meta.tenant_id.0 => Judgement::Drop,
        Some(target) if target.is_paused => Judgement::Park,
        Some(_) => {
            let made = known.attempts.max(meta.attempt - 1) - known.attempts_before;
            Judgement::Attempt { made: u16::try_from(made).unwrap_or(0) }
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
            url: String::new(),
            url_sealed: None,
            sealed: Vec::new(),
            is_paused,
            is_removed,
        }
    }

    fn known(state: State, attempts: i16, attempts_before: i16) -> Option<Known> {
        Some(Known { state, attempts, attempts_before })
    }

    fn active(attempt: i16, known: Option<Known>) -> Judgement {
        judge(&meta(attempt), known, Some(&target(false, false)))
    }

    #[test]
    fn a_message_is_tried_until_its_attempt_is_on_record() {
        assert_eq!(active(1, known(State::Pending, 0, 0)), Judgement::Attempt { made: 0 });
        assert_eq!(active(1, known(State::Pending, 1, 0)), Judgement::Done);
        assert_eq!(active(2, known(State::Pending, 1, 0)), Judgement::Attempt { made: 1 });
        assert_eq!(active(2, known(State::Pending, 2, 0)), Judgement::Done);
    }

    #[test]
    fn a_message_may_come_before_its_delivery() {
        assert_eq!(active(1, None), Judgement::Attempt { made: 0 });
        assert_eq!(active(2, None), Judgement::Attempt { made: 1 });
    }

    #[test]
    fn what_has_ended_is_not_sent_again() {
        assert_eq!(active(3, known(State::Delivered, 2, 0)), Judgement::Done);
        assert_eq!(active(3, known(State::Dropped, 2, 0)), Judgement::Done);
        assert_eq!(active(7, known(State::Dead, 6, 0)), Judgement::Dead);
    }

    #[test]
    fn a_replay_begins_the_schedule_anew() {
        assert_eq!(active(7, known(State::Pending, 6, 6)), Judgement::Attempt { made: 0 });
        assert_eq!(active(9, known(State::Pending, 8, 6)), Judgement::Attempt { made: 2 });
    }

    #[test]
    fn subscriptions_are_looked_at_before_each_attempt() {
        let pending = known(State::Pending, 0, 0);
        assert_eq!(judge(&meta(1), pending, Some(&target(true, false))), Judgement::Park);
        assert_eq!(judge(&meta(1), pending, Some(&target(false, true))), Judgement::Drop);
        assert_eq!(judge(&meta(1), pending, Some(&target(true, true))), Judgement::Drop);
        assert_eq!(judge(&meta(1), pending, None), Judgement::Drop);
        let foreign = Target { tenant_id: Uuid::from_u128(9), ..target(false, false) };
        assert_eq!(judge(&meta(1), pending, Some(&foreign)), Judgement::Drop);
        assert_eq!(
            judge(&meta(1), known(State::Delivered, 1, 0), Some(&target(true, false))),
            Judgement::Done
        );
    }
}
