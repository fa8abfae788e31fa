//! What a lane does with the messages of a unit that was handled: replies first, acknowledgements last.

use super::dead_log::log_dead_letter;
use super::dead_part::dead_letter;
use super::lane::{Lane, Message, Unit, Verdict};
use super::reply::Reply;
use crate::metrics::DEAD_LETTERED;
use crate::trace::{TraceContext, Trail};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicRejectOptions};
use std::time::Duration;
use tokio::time::sleep;
use tracing::Span;

/// Wait before a message is requeued whose parts could not be dead-lettered.
const REQUEUE_AFTER: Duration = Duration::from_millis(250);

/// How the broker is told of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settlement {
    Acknowledge,
    /// To the dead-letter queue.
    Reject,
    Requeue,
    /// It is told nothing, and the message stays unacknowledged.
    Leave,
}

impl Lane {
    /// Replies, then acknowledges or dead-letters.
    pub(super) async fn settle(&mut self, unit: &Unit, verdicts: &[Verdict]) -> lapin::Result<()> {
        self.reply_all(unit, verdicts).await;
        let mut settlements = Vec::with_capacity(verdicts.len());
        for (message, verdict) in unit.messages.iter().zip(verdicts) {
            settlements.push(self.settlement(message, verdict).await);
        }
        self.has_left |= settlements.contains(&Settlement::Leave);
        // First: an acknowledgement of several then includes only what is to be acknowledged.
        for (delivery, settlement) in unit.deliveries.iter().zip(&settlements) {
            let requeue = match settlement {
                Settlement::Reject => false,
                Settlement::Requeue => true,
                Settlement::Acknowledge | Settlement::Leave => continue,
            };
            delivery.reject(BasicRejectOptions { requeue }).await?;
        }
        for (at, multiple) in acknowledgements(&settlements, self.has_left) {
            unit.deliveries[at].ack(BasicAckOptions { multiple }).await?;
        }
        Ok(())
    }

    /// Hands the replies to the broker, where they are wanted.
    async fn reply_all(&mut self, unit: &Unit, verdicts: &[Verdict]) {
        let (mut replies, mut spans) = (Vec::new(), Vec::new());
        for ((delivery, message), verdict) in unit.deliveries.iter().zip(&unit.messages).zip(verdicts) {
            if let Some(reply) = reply(delivery, verdict) {
                replies.push(reply);
                spans.push((message, verdict));
            }
        }
        let were_sent = self.replies.send_all(&replies).await;
        for ((message, verdict), was_sent) in spans.into_iter().zip(were_sent) {
            if !was_sent {
                span(message, verdict).in_scope(|| tracing::debug!("a reply could not be sent"));
            }
        }
    }

    /// Decides how a message is settled, and dead-letters its parts where it comes to that.
    async fn settlement(&self, message: &Message, verdict: &Verdict) -> Settlement {
        match verdict {
            Verdict::Done { .. } => Settlement::Acknowledge,
            Verdict::Partly { unreadable, .. } => {
                if dead_letter(self.replies.broker(), self.queue, unreadable).await {
                    return Settlement::Acknowledge;
                }
                sleep(REQUEUE_AFTER).await;
                Settlement::Requeue
            }
            Verdict::Dead { reason, .. } => {
                span(message, verdict).in_scope(|| log_dead_letter(self.queue, reason));
                metrics::counter!(DEAD_LETTERED, "queue" => self.queue.as_str(), "reason" => *reason)
                    .increment(1);
                Settlement::Reject
            }
            Verdict::Leave => Settlement::Leave,
        }
    }
}

/// The reply that a verdict sends, if the message wants one.
fn reply<'v>(delivery: &Delivery, verdict: &'v Verdict) -> Option<Reply<'v>> {
    let body = match verdict {
        Verdict::Done { reply, .. } | Verdict::Partly { reply, .. } => reply,
        Verdict::Dead { reply, .. } => reply.as_ref()?,
        Verdict::Leave => return None,
    };
    let to = delivery.properties.reply_to().clone()?;
    Some(Reply { to, id: delivery.properties.correlation_id().clone(), body })
}

/// The places of the messages to acknowledge, and whether that includes all before: rejected ones aren't there any more.
fn acknowledgements(settlements: &[Settlement], has_left: bool) -> Vec<(usize, bool)> {
    let places = settlements.iter().enumerate();
    let mut places =
        places.filter(|(_, settlement)| **settlement == Settlement::Acknowledge).map(|(at, _)| at);
    if has_left {
        places.map(|at| (at, false)).collect()
    } else {
        places.next_back().map(|at| (at, true)).into_iter().collect()
    }
}

/// What a log line about settling a message names.
fn span(message: &Message, verdict: &Verdict) -> Span {
    let trail = match verdict {
        Verdict::Done { trail, .. } | Verdict::Dead { trail, .. } => *trail,
        Verdict::Partly { .. } | Verdict::Leave => None,
    };
    let Some(Trail { request_id, context: TraceContext { trace_id, .. } }) = trail else {
        return message.span();
    };
    tracing::error_span!("message", %request_id, %trace_id)
}

#[cfg(test)]
mod tests {
    use super::Settlement::{Acknowledge, Leave, Reject};
    use super::*;

    #[test]
    fn what_is_done_is_acknowledged_at_once_and_what_is_left_is_not_included() {
        assert_eq!(acknowledgements(&[Acknowledge, Acknowledge], false), [(1, true)]);
        assert_eq!(acknowledgements(&[Acknowledge, Reject, Acknowledge, Reject], false), [(2, true)]);
        assert_eq!(acknowledgements(&[Reject], false), []);
        assert_eq!(acknowledgements(&[Leave, Acknowledge, Acknowledge], true), [(1, false), (2, false)]);
    }
}
