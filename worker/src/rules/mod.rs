//! The rules of the specification, as pure functions over a [`TenantState`]: no I/O, clock or randomness that
//! isn't handed in.
//!
//! Events, records writes and advisor actions are three doors to the same rules; this module is the events'
//! door, `records` and `advisor` are the others. A file for each subject. A failed event leaves no trace: rules
//! decide on failure before they change anything.

pub mod advisor;
pub mod booking;
pub mod brief;
pub mod company;
pub mod contact;
pub mod credit;
pub mod discovery;
pub mod enquiry;
pub mod invoice;
pub mod lead;
pub mod money;
pub mod notify;
pub mod outbound;
pub mod payload;
pub mod proposal;
pub mod records;
pub mod routing;
pub mod stage;
pub mod timeline;

mod ledger;
mod numbers;
mod refusal;
mod warnings;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;

pub use numbers::{NumberBlock, can_open};
pub use refusal::{InternalError, Refusal};
pub use warnings::Warnings;

use crate::state::TenantState;
use chrono::{DateTime, Utc};
use common::caller::Caller;
use common::event::{Envelope, EventResult, InboundType};
use common::model::{ClientId, DiscoveryId, LeadId, Scope, TripId};
use common::trace::Trail;
use contact::Identity;
use payload::Payload;
use uuid::Uuid;

/// An event and who sent it with which message.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Who sent it.
    pub caller: &'a Caller,
    /// What was sent.
    pub envelope: &'a Envelope<'a>,
    /// The message it came with: a redelivery has the same one.
    pub request_id: Uuid,
    /// Its place in that message's batch.
    pub ordinal: i16,
    /// The request that sent it, and its place in a trace. In a bundle the request's id isn't the message's.
    pub trail: Option<Trail>,
}

/// What rules can't make themselves.
pub struct Context<'a> {
    /// Now, in whole milliseconds (D19).
    pub now: DateTime<Utc>,
    /// Makes ids: UUIDv7, growing.
    pub next_id: &'a mut dyn FnMut() -> Uuid,
    /// Enquiry numbers reserved for this agency.
    pub numbers: &'a mut NumberBlock,
    /// Leave the discovery part out: storing it failed on the first try
    /// (`traveller_discovery_upsert_failed`).
    pub skip_discovery: bool,
}

/// What an outbound event is due to (D24).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The API key whose call it was; `None` for the CRM's own acts.
    pub key_prefix: Option<String>,
    /// The emitting system.
    pub origin: String,
    /// When it happened.
    pub occurred_at: DateTime<Utc>,
    /// The request that it came with, for traces.
    pub trail: Option<Trail>,
}

impl Cause {
    /// The CRM itself: routing and advisors' actions (D16, D24).
    pub fn crm(now: DateTime<Utc>) -> Self {
        Self { key_prefix: None, origin: "crm".to_owned(), occurred_at: now, trail: None }
    }
}

/// What an accepted event did, as far as its result tells.
#[derive(Debug)]
pub(crate) struct Applied {
    client_id: ClientId,
    lead_id: Option<LeadId>,
    trip_id: Option<TripId>,
    discovery_id: Option<DiscoveryId>,
    warnings: Warnings,
}

impl Applied {
    /// An event that concerns no enquiry.
    fn to_client(client_id: ClientId, warnings: Warnings) -> Self {
        Self { client_id, lead_id: None, trip_id: None, discovery_id: None, warnings }
    }
}

impl Event<'_> {
    fn identity(&self) -> Identity<'_> {
        Identity::from(&self.envelope.actor)
    }

    fn payload(&self) -> Result<Payload<'_>, InternalError> {
        Payload::of(self.envelope.payload)
    }

    fn cause(&self) -> Cause {
        Cause {
            key_prefix: Some(self.caller.key.as_str().to_owned()),
            origin: self.envelope.origin.clone(),
            occurred_at: self.envelope.occurred_at,
            trail: self.trail,
        }
    }
}

/// Applies one event to the state. A repeated `eventId` has no second effect (specification: Inbound rules,
/// 1).
///
/// An error is a broken invariant: the state is then good for nothing and the unit of work fails.
pub fn apply(
    state: &mut TenantState,
    event: &Event<'_>,
    ctx: &mut Context<'_>,
) -> Result<EventResult, InternalError> {
    if let Some(entry) = state.ledger.get(&event.envelope.event_id) {
        return Ok(ledger::repeat(entry, event));
    }
    match decide(state, event, ctx) {
        Ok(applied) => {
            timeline::append(state, applied.client_id, event, ctx);
            Ok(ledger::enter(state, event, applied))
        }
        Err(Refusal::Internal(error)) => Err(error),
        Err(refusal) => Ok(ledger::failed(event, &refusal)),
    }
}

fn decide(state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>) -> Result<Applied, Refusal> {
    let kind = event.envelope.event_type;
    if kind.needs_credit_scope() && !event.caller.scopes.has(Scope::CreditWrite) {
        return Err(Refusal::InsufficientScope);
    }
    match kind {
        InboundType::ContactIdentified
        | InboundType::TripPlanningStarted
        | InboundType::TripDraftUpdated
        | InboundType::QuoteRequested => Ok(contact::identified(state, event, ctx)),
        InboundType::ContactUpdated => contact::updated(state, event, ctx),
        InboundType::EnquirySubmitted => enquiry::submitted(state, event, ctx),
        InboundType::DiscoveryUpserted => discovery::upserted(state, event, ctx),
        InboundType::BookingStarted => booking::started(state, event, ctx),
        InboundType::BookingAbandoned => booking::abandoned(state, event, ctx),
        InboundType::BookingCompleted => booking::completed(state, event, ctx),
        InboundType::BookingCreditApplied => credit::applied(state, event, ctx),
        InboundType::EmployeeCreditUpdated => credit::updated(state, event, ctx),
    }
}
