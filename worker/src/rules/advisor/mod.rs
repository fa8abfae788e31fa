//! The rules of advisor actions (operator's contract: Advisor actions). Apart from its own checks, an action uses the same
//! functions as events and records writes.
//!
//! A refused action does not change the state: rules refuse before they change anything.

use super::contact::{self, ContactIdentity};
use super::invoice::{self, Booking};
use super::new_lead::{self, NewLead};
use super::proposal::{self, Offer};
use super::{Cause, Context, InternalError, Warnings, WriteError, lead, routing, stage};
use crate::state::{LedgerEntry, Money, TenantState};
use common::advisor::{
    Action, ActionReply, Amount, BookingCancel, BookingConfirm, LeadClient, OpenLead, RecordId, StageChange,
};
use common::model::{Brief, ClientId, LeadId, Stage, text};
use common::record::Line;
use common::trace::RequestContext;
use common::write::WriteRefusal;

/// The sender of actions in the ledger, in place of an API key's prefix.
pub(crate) const SENDER: &str = "crm";

/// An action with the ids for its ledger entry and its outbound events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActionRequest<'a> {
    pub(crate) action: &'a Action,
    /// Its event id in the ledger: `connect-api:crm:<message id>`.
    pub(crate) event_id: &'a str,
    /// The request of its outbound events, for traces.
    pub(crate) request_context: RequestContext,
}

/// Applies an action and adds it to the ledger. It is not added to the timeline, which shows only events of the traveler.
/// Returns the content of the reply.
pub(crate) fn apply(
    state: &mut TenantState, request: &ActionRequest<'_>, ctx: &mut Context<'_>,
) -> Result<ActionReply, WriteError> {
    let ActionRequest { action, event_id, request_context } = *request;
    let cause = Cause { request_context: Some(request_context), ..Cause::crm(ctx.now) };
    let lead = act(state, action, &cause, ctx)?;
    let reply = reply_to(state, lead, action)?;
    state.add_to_ledger(LedgerEntry {
        event_id: event_id.to_owned(),
        event_type: action.name().ledger_event_type().to_owned(),
        key_prefix: SENDER.to_owned(),
        request_id: request_context.request_id,
        ordinal: 0,
        client_id: Some(reply.client_id),
        lead_id: Some(reply.lead_id),
        trip_id: reply.trip_id,
        discovery_id: None,
        warnings: Vec::new(),
        trace_id: request_context.foreign_trace_id(),
    });
    Ok(reply)
}

/// Applies an action and returns its lead.
pub(crate) fn act(
    state: &mut TenantState, action: &Action, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<LeadId, WriteError> {
    match action {
        Action::OpenLead(new) => open(state, new, cause, ctx),
        Action::Assign(to) => {
            let id = find_lead(state, &to.lead)?;
            let owner = to.owner.key();
            routing::check_member(state, owner)?;
            routing::assign(state, id, owner.to_owned(), cause, ctx)?;
            Ok(id)
        }
        Action::Stage(to) => move_to(state, to, cause, ctx),
        Action::Archive(of) => put_at(state, &of.lead, Stage::Archived, cause, ctx),
        Action::Travelled(of) => put_at(state, &of.lead, Stage::Travelled, cause, ctx),
        Action::ProposalSend(sent) => {
            let id = find_lead(state, &sent.lead)?;
            let (title, url, channel) = (sent.title.as_str(), sent.url.as_str(), sent.channel.as_str());
            proposal::send(state, id, Offer { title, url, channel }, cause, ctx)?;
            Ok(id)
        }
        Action::ProposalView(of) => {
            let id = find_lead(state, &of.lead)?;
            proposal::view(state, id, cause, ctx)?;
            Ok(id)
        }
        Action::ProposalDiscard(of) => {
            let id = find_lead(state, &of.lead)?;
            proposal::discard(state, id, ctx)?;
            Ok(id)
        }
        Action::BookingConfirm(booking) => confirm(state, booking, cause, ctx),
        Action::BookingCancel(booking) => cancel(state, booking, cause, ctx),
    }
}

/// The content of the reply to an action: the lead as the action left it.
pub(crate) fn reply_to(state: &TenantState, lead_id: LeadId, action: &Action) -> Result<ActionReply, InternalError> {
    let lead = lead::get(state, lead_id)?;
    let trip_id = lead::trip_id(state, lead_id);
    Ok(ActionReply {
        ok: true,
        client_id: lead.client_id,
        lead_id,
        trip_id,
        proposal_id: trip_id.and_then(|trip| state.proposal_of(trip)).map(|proposal| proposal.id),
        booking_ref: action.booking_ref().map(str::to_owned),
        stage: lead.stage,
    })
}

fn find_lead(state: &TenantState, id: &RecordId) -> Result<LeadId, WriteRefusal> {
    let lead = LeadId::parse(id.as_str()).and_then(|id| state.leads.get(&id));
    lead.map(|lead| lead.id).ok_or(WriteRefusal::NotFound)
}

/// Opens a lead, with or without a trip workspace.
fn open(state: &mut TenantState, new: &OpenLead, cause: &Cause, ctx: &mut Context<'_>) -> Result<LeadId, WriteError> {
    let client_id = match &new.who {
        LeadClient::Client(id) => {
            let client = ClientId::parse(id.as_str()).and_then(|id| state.client(id));
            client.map(|client| client.id).ok_or(WriteRefusal::NotFound)?
        }
        LeadClient::Contact { email, name } => {
            let identity = ContactIdentity { email: Some(email), name: name.as_deref(), ..ContactIdentity::default() };
            contact::upsert(state, &identity, &mut Warnings::default(), ctx)
        }
    };
    let lead = NewLead {
        title: new.title.clone(),
        brief: Brief { destination: new.destination.clone(), ..Brief::default() },
        with_trip: new.with_trip,
        ..NewLead::for_client(client_id)
    };
    Ok(new_lead::open(state, lead, cause, ctx)?.lead_id)
}

/// Moves the lead to any stage, if [`stage::check_move`] allows it.
fn move_to(
    state: &mut TenantState, to: &StageChange, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<LeadId, WriteError> {
    let id = find_lead(state, &to.lead)?;
    let reason = to.reason.get().map(|reason| reason.as_str().trim()).filter(|reason| !text::is_blank(reason));
    stage::check_move(state, id, to.stage, reason)?;
    stage::move_to(state, id, to.stage, reason, cause, ctx)?;
    Ok(id)
}

/// Moves the lead to a stage that needs neither a reason nor a trip.
fn put_at(
    state: &mut TenantState, lead: &RecordId, to: Stage, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<LeadId, WriteError> {
    let id = find_lead(state, lead)?;
    stage::move_to(state, id, to, None, cause, ctx)?;
    Ok(id)
}

/// Books the lead and makes its invoice. If the booking was confirmed before, neither the invoice nor the lead's stage
/// changes. The reference of a canceled booking cannot be used again (D30).
fn confirm(
    state: &mut TenantState, booking: &BookingConfirm, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<LeadId, WriteError> {
    let id = find_lead(state, &booking.lead)?;
    let booking_ref = booking.booking_ref.as_str().to_owned();
    if let Some(invoice) = state.invoices.get(&booking_ref) {
        let lead_id = invoice.lead_id;
        return match invoice.cancelled_at {
            Some(_) => Err(WriteRefusal::BookingCancelled { lead_id }.into()),
            None if lead_id != id => Err(WriteRefusal::BookingRefConflict { lead_id }.into()),
            None => Ok(id),
        };
    }
    let money = |amount: Amount| Money(amount.hundredths());
    let (amount, currency) = booking.price.clone().unzip();
    let (amount, credit_used) = (amount.map(money), booking.credit_used.map(money));
    stage::move_to(state, id, Stage::TripBooked, None, cause, ctx)?;
    invoice::confirm(state, id, Booking { booking_ref, amount, currency, credit_used }, cause, ctx)?;
    Ok(id)
}

fn cancel(
    state: &mut TenantState, booking: &BookingCancel, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<LeadId, WriteError> {
    let booking_ref = booking.booking_ref.as_str();
    let lead_id = state.invoices.get(&booking_ref.to_owned()).ok_or(WriteRefusal::NotFound)?.lead_id;
    let reason = booking.reason.get().map(Line::as_str);
    invoice::cancel(state, booking_ref, reason, cause, ctx)?;
    Ok(lead_id)
}

#[cfg(test)]
mod tests;
