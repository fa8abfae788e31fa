//! Checks: messages that repeat the events of an earlier one, to learn how many of them are settled.

use super::events::{EventsHandler, Interrupted, unit_span_of};
use super::events_message::{EventsMessage, Part};
use crate::pipeline::events::UnitEvent;
use common::broker::{Message, MessageOutcome};
use common::limited;
use common::log_limit::LogLimit;
use common::message::CheckReply;
use common::trace::RequestContext;
use tracing::Instrument;
use uuid::Uuid;

/// Limits the log lines about checks that failed.
static FAILED: LogLimit<1> = LogLimit::new();

impl EventsHandler {
    /// Replies with the number of settled events of the message with this id. If that cannot be determined, none is.
    pub(super) async fn check(&self, message: &Message, message_id: Uuid) -> MessageOutcome {
        if message.redelivered {
            // It may have ended a worker, as its message may have.
            return reply_with(0, None);
        }
        let (settled, request_context) = match EventsMessage::parse(message) {
            Ok(parsed) => {
                let parts: Vec<&Part<'_>> = parsed.parts.iter().collect();
                let events: Vec<UnitEvent<'_>> = parsed.events().collect();
                match self.count_settled(&events, message_id).instrument(unit_span_of(&parts)).await {
                    Ok(settled) => (settled, parsed.request_context()),
                    Err(Interrupted) => return MessageOutcome::LeaveUnacknowledged,
                }
            }
            // Its message cannot be read either, and is a dead letter.
            Err(unreadable) => (0, unreadable.request_context),
        };
        reply_with(settled, request_context)
    }

    async fn count_settled(&self, events: &[UnitEvent<'_>], message_id: Uuid) -> Result<usize, Interrupted> {
        let counted = self.when_available(|| self.pipeline.count_settled(events, message_id)).await?;
        Ok(counted.unwrap_or_else(|error| {
            limited!(FAILED[0], warn, %error, %message_id, events = events.len(), "checking whether events are settled failed; ingest will check again");
            0
        }))
    }
}

fn reply_with(settled: usize, request_context: Option<RequestContext>) -> MessageOutcome {
    let reply = CheckReply { settled: settled.try_into().unwrap_or(u64::MAX) };
    let reply = serde_json::to_vec(&reply).expect("it has string keys");
    MessageOutcome::Done { reply, request_context }
}
