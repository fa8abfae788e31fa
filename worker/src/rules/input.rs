//! What the rules are given: an event, its cause, and time, ids and numbers.

use super::contact::ContactIdentity;
use super::payload::Payload;
use super::{InternalError, NumberBlock};
use chrono::{DateTime, Utc};
use common::caller::Caller;
use common::event::Envelope;
use common::trace::RequestContext;
use uuid::Uuid;

/// An event, its caller, and the request that it came with.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The API key that sent it, with its tenant and scopes.
    pub caller: &'a Caller,
    /// The event as it was sent.
    pub envelope: &'a Envelope<'a>,
    /// Its index in that request's batch.
    pub ordinal: i16,
    /// That request: its id, which is the same when its message is redelivered, and its trace context.
    pub request_context: RequestContext,
}

/// Time, ids and numbers for the rules, which are pure.
pub struct Context<'a> {
    /// The current time in whole milliseconds (D19).
    pub now: DateTime<Utc>,
    /// Makes ids: increasing UUIDv7.
    pub next_id: &'a mut dyn FnMut() -> Uuid,
    /// Enquiry numbers reserved for this tenant.
    pub numbers: &'a mut NumberBlock,
    /// Whether to leave the discovery part out, because storing it failed on the first attempt
    /// (`traveller_discovery_upsert_failed`).
    pub skip_discovery: bool,
}

/// The cause of an outbound event (D24).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Prefix of the API key whose call it was; `None` for actions of the CRM itself.
    pub(crate) key_prefix: Option<String>,
    /// The system that emitted it.
    pub(crate) origin: String,
    /// When the cause happened.
    pub(crate) occurred_at: DateTime<Utc>,
    /// The request that caused it, for traces.
    pub(crate) request_context: Option<RequestContext>,
}

impl Cause {
    /// The CRM itself, for routing and advisor actions (D16, D24).
    pub(crate) fn crm(now: DateTime<Utc>) -> Self {
        Self { key_prefix: None, origin: "crm".to_owned(), occurred_at: now, request_context: None }
    }
}

impl Event<'_> {
    pub(super) fn identity(&self) -> ContactIdentity<'_> {
        ContactIdentity::from(&self.envelope.actor)
    }

    pub(super) fn payload(&self) -> Result<Payload<'_>, InternalError> {
        Payload::of(self.envelope.payload)
    }

    pub(super) fn cause(&self) -> Cause {
        Cause {
            key_prefix: Some(self.caller.key.as_str().to_owned()),
            origin: self.envelope.origin.clone(),
            occurred_at: self.envelope.occurred_at,
            request_context: Some(self.request_context),
        }
    }
}
