//! The rules of events (specification: Inbound rules, Inbound event types).
//!
//! A failed event does not change the state: rules detect failures before they change anything.

use super::{
    Context, Event, InternalError, Refusal, Warnings, booking, contact, credit, discovery, ledger, new_lead, timeline,
};
use crate::state::TenantState;
use common::event::{EventResult, InboundType};
use common::model::{ClientId, DiscoveryId, LeadId, Scope, TripId};

/// Applies one event to the state. A repeated `eventId` has no second effect (specification: Inbound rules,
/// 1).
///
/// An error is a broken invariant: the state must then be discarded, and the unit of work fails.
pub fn apply(state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>) -> Result<EventResult, InternalError> {
    // A duplicate (D7).
    if let Some(entry) = state.ledger.get(&event.envelope.event_id) {
        return Ok(ledger::repeated_result(entry, event));
    }
    match decide(state, event, ctx) {
        Ok(applied) => {
            timeline::append(state, applied.client_id, event, ctx);
            Ok(ledger::record_applied(state, event, applied))
        }
        Err(Refusal::Internal(error)) => Err(error),
        Err(refusal) => Ok(ledger::failed_result(event, &refusal)),
    }
}

/// The result of an event that is older than the erasure of a person whom it names (D32).
pub(crate) fn refuse_erased(event: &Event<'_>) -> EventResult {
    ledger::failed_result(event, &Refusal::ContactErased)
}

fn decide(state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>) -> Result<EventEffects, Refusal> {
    let kind = event.envelope.event_type;
    // Credit events need a scope of their own (D8).
    if kind.needs_credit_scope() && !event.caller.scopes.has(Scope::CreditWrite) {
        return Err(Refusal::InsufficientScope);
    }
    match kind {
        InboundType::ContactIdentified
        | InboundType::TripPlanningStarted
        | InboundType::TripDraftUpdated
        | InboundType::QuoteRequested => Ok(contact::apply_identified(state, event, ctx)),
        InboundType::ContactUpdated => contact::apply_updated(state, event, ctx),
        InboundType::EnquirySubmitted => new_lead::apply_enquiry_submitted(state, event, ctx),
        InboundType::DiscoveryUpserted => discovery::apply_upserted(state, event, ctx),
        InboundType::BookingStarted => booking::apply_started(state, event, ctx),
        InboundType::BookingAbandoned => booking::apply_abandoned(state, event, ctx),
        InboundType::BookingCompleted => booking::apply_completed(state, event, ctx),
        InboundType::BookingCreditApplied => credit::apply_credit_applied(state, event, ctx),
        InboundType::EmployeeCreditUpdated => credit::apply_credit_updated(state, event, ctx),
    }
}

/// The effects of an accepted event that its result reports.
#[derive(Debug)]
pub(super) struct EventEffects {
    pub(super) client_id: ClientId,
    pub(super) lead_id: Option<LeadId>,
    pub(super) trip_id: Option<TripId>,
    pub(super) discovery_id: Option<DiscoveryId>,
    pub(super) warnings: Warnings,
}

impl EventEffects {
    /// An event that concerns no lead.
    pub(super) fn for_client(client_id: ClientId, warnings: Warnings) -> Self {
        Self { client_id, lead_id: None, trip_id: None, discovery_id: None, warnings }
    }
}
