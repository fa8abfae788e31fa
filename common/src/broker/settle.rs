//! Settles the messages of a unit that was handled: sends the replies first, then acknowledges or rejects the messages. Those
//! that a program has stored were acknowledged before they are handled, see [`StoredMessages`].

use super::acknowledge::{Acknowledgements, Settled, Settlement};
use super::connection::Broker;
use super::dead_letter_log::log_dead_letter;
use super::message::Message;
use super::publisher::Publisher;
use super::reply::{Replies, Reply};
use super::topology::{Queue, dead_queue_name};
use super::unacknowledged::UnacknowledgedGuard;
use crate::bundle::join_replies;
use crate::metrics::DEAD_LETTERED;
use crate::trace::{RequestContext, TraceContext};
use lapin::message::Delivery;
use std::time::Duration;
use tracing::Span;

/// Maximum time that the broker may take to confirm a dead letter.
const CONFIRM_WITHIN: Duration = Duration::from_secs(2);

/// What the handler decides about a message. The consumer sends the reply and acknowledges or rejects accordingly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageOutcome {
    /// Handled: send the reply, then acknowledge.
    Done {
        /// Body of the reply.
        reply: Vec<u8>,
        /// Whether handling it again changes nothing: its acknowledgement may wait for others.
        is_repeatable: bool,
        /// The request that log lines name, if the handler has read it; otherwise they name what the message's id and headers say.
        request_context: Option<RequestContext>,
    },
    /// Cannot be handled, or only in part: send the reply, if there is one, then reject to the dead-letter queue.
    DeadLetter {
        /// Reason for the log and the metric's label; one of a fixed set, never data of the message.
        reason: &'static str,
        /// Body of the reply, if one is sent.
        reply: Option<Vec<u8>>,
        /// The request that log lines name, if the handler has read it; otherwise they name what the message's id and headers say.
        request_context: Option<RequestContext>,
    },
    /// Stored in the database: acknowledge. The reply is sent once it is handled.
    Stored,
    /// Not handled, because another transaction holds a lock, or because the program shuts down. It stays unacknowledged and is in
    /// the next unit; the broker requeues it when the consumer closes.
    PutOff,
}

/// The deliveries of a unit, and their messages at the same indexes.
#[derive(Default)]
pub(super) struct Unit {
    pub(super) deliveries: Vec<Delivery>,
    pub(super) messages: Vec<Message>,
    /// Whether all that was delivered before is in it or settled.
    pub(super) all_before: bool,
}

impl Unit {
    pub(super) fn add(&mut self, delivery: Delivery, message: Message) {
        self.deliveries.push(delivery);
        self.messages.push(message);
    }
}

/// Settles the units of one consumer.
#[derive(Debug)]
pub(super) struct Settler {
    replies: Replies,
    queue: Queue,
}

impl Settler {
    /// Settles messages of `queue`; replies are published on `reply_connection`.
    pub(super) fn new(reply_connection: &Broker, queue: Queue) -> Self {
        Self { replies: Replies::new(reply_connection.clone(), queue), queue }
    }

    /// Replies, then acknowledges or dead-letters, or leaves that to the next unit or to [`Settler::acknowledge`]. `guard` counts
    /// the unit as unacknowledged.
    pub(super) async fn settle(
        &mut self, acknowledgements: &mut Acknowledgements, unit: &Unit, outcomes: &[MessageOutcome],
        guard: UnacknowledgedGuard,
    ) -> lapin::Result<()> {
        self.reply_all(&unit.messages, outcomes).await;
        let tags = unit.deliveries.iter().map(|delivery| delivery.delivery_tag);
        let of_each = unit.messages.iter().zip(outcomes);
        let settlements = of_each.map(|(message, outcome)| self.settlement(message, outcome));
        let settled = Settled { deliveries: tags.zip(settlements).collect(), all_before: unit.all_before };
        if let Some(_unacknowledged) = acknowledgements.postpone(&settled, guard) {
            self.replies.until_written().await;
            acknowledgements.settle(&settled)?;
        }
        Ok(())
    }

    /// Acknowledges what waits, once the replies are written.
    pub(super) async fn acknowledge(&mut self, acknowledgements: &mut Acknowledgements) -> lapin::Result<()> {
        self.replies.until_written().await;
        acknowledgements.send()
    }

    /// Sends the replies of messages that ask for one. After one that cannot be sent none is tried, because each would wait.
    async fn reply_all(&mut self, messages: &[Message], outcomes: &[MessageOutcome]) {
        let mut can_send = true;
        for (message, outcome) in messages.iter().zip(outcomes) {
            let Some(reply) = reply(message, outcome) else { continue };
            can_send = can_send && self.replies.send(reply).await;
            if !can_send {
                span(message, outcome)
                    .in_scope(|| tracing::debug!("a reply could not be sent; its caller will time out"));
            }
        }
    }

    /// Decides how a message is settled; counts and logs a dead letter.
    fn settlement(&self, message: &Message, outcome: &MessageOutcome) -> Settlement {
        match outcome {
            MessageOutcome::Done { is_repeatable: true, .. } => Settlement::Acknowledge,
            MessageOutcome::Done { .. } | MessageOutcome::Stored => Settlement::AcknowledgeNow,
            MessageOutcome::DeadLetter { reason, .. } => {
                span(message, outcome).in_scope(|| log_dead_letter(self.queue, reason));
                metrics::counter!(DEAD_LETTERED, "queue" => self.queue.as_str(), "reason" => *reason).increment(1);
                Settlement::Reject
            }
            MessageOutcome::PutOff => Settlement::Leave,
        }
    }
}

/// Settles messages of a queue that were stored, and whose deliveries are acknowledged.
#[derive(Debug)]
pub struct StoredMessages {
    settler: Settler,
    publisher: Publisher,
    dead: String,
    reply_connection: Broker,
    /// Whether the last message found no connection.
    was_absent: bool,
}

impl StoredMessages {
    /// Settles stored messages of `queue`; replies and dead letters are published on `reply_connection`.
    pub fn new(reply_connection: &Broker, queue: Queue, label_of_dead_letters: &'static str) -> Self {
        Self {
            settler: Settler::new(reply_connection, queue),
            publisher: Publisher::new(reply_connection.clone(), queue, label_of_dead_letters),
            dead: dead_queue_name(reply_connection.prefix(), queue),
            reply_connection: reply_connection.clone(),
            was_absent: false,
        }
    }

    /// Counts a message as unacknowledged until the guard is dropped.
    pub fn begin(&self) -> UnacknowledgedGuard {
        UnacknowledgedGuard::new(self.settler.queue)
    }

    /// Replies, or publishes the message to the dead-letter queue. `false` if it is not handled, or the broker has not confirmed
    /// the dead letter: it must stay then. While the broker is absent only the first message waits for a connection, because all
    /// others wait behind it; the replies to those are lost.
    pub async fn settle(&mut self, message: &Message, outcome: &MessageOutcome) -> bool {
        let is_dead = matches!(outcome, MessageOutcome::DeadLetter { .. });
        let mut is_absent = false;
        if is_dead || message.wants_reply {
            let can_publish = self.reply_connection.can_publish();
            is_absent = std::mem::replace(&mut self.was_absent, !can_publish) && !can_publish;
        }
        if is_dead && (is_absent || self.publisher.publish_again(&self.dead, message, CONFIRM_WITHIN).await.is_err()) {
            return false;
        }
        if !is_absent {
            self.settler.reply_all(std::slice::from_ref(message), std::slice::from_ref(outcome)).await;
            self.settler.replies.until_written().await;
        }
        self.settler.settlement(message, outcome) != Settlement::Leave
    }
}

impl MessageOutcome {
    /// The body of the reply, if there is one.
    fn reply(&self) -> Option<&[u8]> {
        match self {
            Self::Done { reply, .. } => Some(reply),
            Self::DeadLetter { reply, .. } => reply.as_deref(),
            Self::Stored | Self::PutOff => None,
        }
    }
}

/// The outcome of a message, from the next of `outcomes`, one for each of its requests. A bundle is settled once all of its requests
/// are handled, and those that are not put off are not handled again; it is dead-lettered if one of them is.
pub(super) fn outcome_of(message: &mut Message, outcomes: &mut impl Iterator<Item = MessageOutcome>) -> MessageOutcome {
    let mut next = || outcomes.next().unwrap_or(MessageOutcome::PutOff);
    if message.parts.is_empty() {
        return next();
    }
    for part in message.parts.iter_mut().filter(|part| part.outcome.is_none()) {
        part.outcome = Some(next()).filter(|outcome| *outcome != MessageOutcome::PutOff);
    }
    let Some(own) = message.parts.iter().map(|part| part.outcome.as_ref()).collect::<Option<Vec<_>>>() else {
        return MessageOutcome::PutOff;
    };
    let reply = join_replies(&own.iter().map(|outcome| outcome.reply()).collect::<Vec<_>>());
    let is_repeatable = own.iter().all(|one| matches!(one, MessageOutcome::Done { is_repeatable: true, .. }));
    let dead = own.into_iter().find_map(|one| match one {
        MessageOutcome::DeadLetter { reason, request_context, .. } => Some((*reason, *request_context)),
        MessageOutcome::Done { .. } | MessageOutcome::Stored | MessageOutcome::PutOff => None,
    });
    match dead {
        Some((reason, request_context)) => MessageOutcome::DeadLetter { reason, reply: Some(reply), request_context },
        None => MessageOutcome::Done { reply, is_repeatable, request_context: None },
    }
}

/// The reply to a message, if it asks for one.
fn reply<'v>(message: &Message, outcome: &'v MessageOutcome) -> Option<Reply<'v>> {
    let body = outcome.reply()?;
    let to = message.properties.reply_to().clone()?;
    Some(Reply { to, id: message.properties.correlation_id().clone(), body })
}

/// The span of log lines about settling a message.
fn span(message: &Message, outcome: &MessageOutcome) -> Span {
    let request_context = match outcome {
        MessageOutcome::Done { request_context, .. } | MessageOutcome::DeadLetter { request_context, .. } => {
            *request_context
        }
        MessageOutcome::Stored | MessageOutcome::PutOff => None,
    };
    let Some(RequestContext { request_id, context: TraceContext { trace_id, .. } }) = request_context else {
        return message.span();
    };
    tracing::error_span!("message", %request_id, %trace_id)
}

#[cfg(test)]
mod tests {
    use super::super::message::Part;
    use super::*;

    fn done(reply: &str, is_repeatable: bool) -> MessageOutcome {
        MessageOutcome::Done { reply: reply.as_bytes().to_vec(), is_repeatable, request_context: None }
    }

    fn bundle(requests: usize) -> Message {
        let part = |_| Part { request: Message::from_stored("", Vec::new()), weight: 1, outcome: None };
        Message { parts: (0..requests).map(part).collect(), ..Message::from_stored("", Vec::new()) }
    }

    #[test]
    fn a_bundle_is_settled_once_all_of_its_requests_are_handled_each_of_them_once() {
        let mut message = bundle(3);
        let mut first = vec![done("1", true), MessageOutcome::PutOff, done("3", true)].into_iter();
        assert_eq!(outcome_of(&mut message, &mut first), MessageOutcome::PutOff);
        assert_eq!(message.requests().count(), 1, "those that are done are not handled again");
        let mut rest = vec![done("2", false), done("next", true)].into_iter();
        assert_eq!(outcome_of(&mut message, &mut rest), done("[1,2,3]", false));
        assert_eq!(rest.next(), Some(done("next", true)), "that of the next message");
        assert_eq!(outcome_of(&mut bundle(1), &mut std::iter::empty()), MessageOutcome::PutOff);
    }

    #[test]
    fn a_bundle_with_a_dead_letter_is_dead_lettered_with_the_replies_to_the_others() {
        let reason = "body";
        let dead = MessageOutcome::DeadLetter { reason, reply: None, request_context: None };
        let mut outcomes = vec![done("1", true), dead].into_iter();
        let reply = Some(b"[1,null]".to_vec());
        let expected = MessageOutcome::DeadLetter { reason, reply, request_context: None };
        assert_eq!(outcome_of(&mut bundle(2), &mut outcomes), expected);
    }
}
