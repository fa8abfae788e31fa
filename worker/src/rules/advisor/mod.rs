//! The advisors' door to the rules (operator's contract: Advisor actions). What an action does beyond its own checks, it
//! does through the functions that events and records writes use.
//!
//! A refused action leaves no trace: rules refuse before they change anything.

use super::contact::{self, Identity};
use super::enquiry::{self, NewEnquiry};
use super::invoice::{self, Booking};
use super::proposal::{self, Offer};
use super::{Cause, Context, Warnings, lead, routing, stage};
use crate::state::{LedgerEntry, Money, TenantState};
use common::advisor::{
    Action, ActionDone, Amount, BookingCancel, BookingConfirm, Id, OpenLead, StageMove, Who,
};
use common::model::{Brief, ClientId, LeadId, Stage};
use common::record::Line;
use common::trace::Trail;
use common::write::WriteRefusal;

/// Who the ledger says that actions are sent by: no API key's prefix.
pub const SENDER: &str = "crm";

/// An action with what the ledger and its effects name.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What is done.
    pub action: &'a Action,
    /// What the ledger knows it by: `connect-api:crm:<message id>`.
    pub event_id: &'a str,
    /// The request that its outbound events name, for traces.
    pub trail: Trail,
}

/// Does an action and enters it in the ledger; on no timeline, for it is no event of the traveller's. Gives the reply.
pub fn apply(
    state: &mut TenantState,
    request: &Request<'_>,
    ctx: &mut Context<'_>,
) -> Result<ActionDone, WriteRefusal> {
    let Request { action, event_id, trail } = *request;
    let cause = Cause { trail: Some(trail), ..Cause::crm(ctx.now) };
    let lead = act(state, action, &cause, ctx)?;
    let done = done(state, lead, action)?;
    state.enter(LedgerEntry {
        event_id: event_id.to_owned(),
        event_type: action.name().in_ledger().to_owned(),
        key_prefix: SENDER.to_owned(),
        request_id: trail.request_id,
        ordinal: 0,
        client_id: Some(done.client_id),
        lead_id: Some(done.lead_id),
        trip_id: done.trip_id,
        discovery_id: None,
        warnings: Vec::new(),
    });
    Ok(done)
}

/// Does an action and gives the enquiry it is about.
pub fn act(
    state: &mut TenantState,
    action: &Action,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<LeadId, WriteRefusal> {
    match action {
        Action::OpenLead(new) => open(state, new, cause, ctx),
        Action::Assign(to) => {
            let id = named(state, &to.lead)?;
            let owner = to.owner.key();
            routing::check_member(state, owner)?;
            routing::assign(state, id, owner.to_owned(), cause, ctx)?;
            Ok(id)
        }
        Action::Stage(to) => move_to(state, to, cause, ctx),
        Action::Archive(of) => put_at(state, &of.lead, Stage::Archived, cause, ctx),
        Action::Travelled(of) => put_at(state, &of.lead, Stage::Travelled, cause, ctx),
        Action::ProposalSend(sent) => {
            let id = named(state, &sent.lead)?;
            let (title, url, channel) = (sent.title.as_str(), sent.url.as_str(), sent.channel.as_str());
            proposal::send(state, id, Offer { title, url, channel }, cause, ctx)?;
            Ok(id)
        }
        Action::ProposalView(of) => {
            let id = named(state, &of.lead)?;
            proposal::view(state, id, cause, ctx)?;
            Ok(id)
        }
        Action::ProposalDiscard(of) => {
            let id = named(state, &of.lead)?;
            proposal::discard(state, id, ctx)?;
            Ok(id)
        }
        Action::BookingConfirm(booking) => confirm(state, booking, cause, ctx),
        Action::BookingCancel(booking) => cancel(state, booking, cause, ctx),
    }
}

/// What the answer tells of the enquiry, as an action left it.
pub fn done(state: &TenantState, lead_id: LeadId, action: &Action) -> Result<ActionDone, WriteRefusal> {
    let lead = lead::get(state, lead_id)?;
    let trip_id = lead::trip_id(state, lead_id);
    Ok(ActionDone {
        ok: true,
        client_id: lead.client_id,
        lead_id,
        trip_id,
        proposal_id: trip_id.and_then(|trip| state.proposal_of(trip)).map(|proposal| proposal.id),
        booking_ref: action.booking_ref().map(str::to_owned),
        stage: lead.stage,
    })
}

/// The agency's enquiry of that id.
fn named(state: &TenantState, id: &Id) -> Result<LeadId, WriteRefusal> {
    let lead = LeadId::parse(id.as_str()).and_then(|id| state.leads.get(&id));
    lead.map(|lead| lead.id).ok_or(WriteRefusal::NotFound)
}

/// Opens an enquiry, with a trip workspace or without.
fn open(
    state: &mut TenantState,
    new: &OpenLead,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<LeadId, WriteRefusal> {
    let client_id = match &new.who {
        Who::Client(id) => {
            let client = ClientId::parse(id.as_str()).and_then(|id| state.client(id));
            client.map(|client| client.id).ok_or(WriteRefusal::NotFound)?
        }
        Who::Contact { email, name } => {
            let identity = Identity { email: Some(email), name: name.as_deref(), ..Identity::default() };
            contact::upsert(state, &identity, &mut Warnings::default(), ctx)
        }
    };
    let enquiry = NewEnquiry {
        title: new.title.clone(),
        brief: Brief { destination: new.destination.clone(), ..Brief::default() },
        with_trip: new.with_trip,
        ..NewEnquiry::unstated(client_id)
    };
    Ok(enquiry::open(state, enquiry, cause, ctx)?.lead_id)
}

/// Any stage there is, as far as it can be set now.
fn move_to(
    state: &mut TenantState,
    to: &StageMove,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<LeadId, WriteRefusal> {
    let id = named(state, &to.lead)?;
    let reason = to.reason.get().map(|reason| reason.as_str().trim()).filter(|reason| !reason.is_empty());
    stage::check(state, id, to.stage, reason)?;
    stage::move_to(state, id, to.stage, reason, cause, ctx)?;
    Ok(id)
}

/// A stage that needs nothing.
fn put_at(
    state: &mut TenantState,
    lead: &Id,
    to: Stage,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<LeadId, WriteRefusal> {
    let id = named(state, lead)?;
    stage::move_to(state, id, to, None, cause, ctx)?;
    Ok(id)
}

/// Books the enquiry and makes its invoice. A booking that was confirmed before is left as it is, and so is where its
/// enquiry has got since.
fn confirm(
    state: &mut TenantState,
    booking: &BookingConfirm,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<LeadId, WriteRefusal> {
    let id = named(state, &booking.lead)?;
    let booking_ref = booking.booking_ref.as_str().to_owned();
    match state.invoices.get(&booking_ref).map(|invoice| invoice.lead_id) {
        Some(lead_id) if lead_id != id => return Err(WriteRefusal::BookingRefConflict { lead_id }),
        Some(_) => return Ok(id),
        None => {}
    }
    let money = |amount: Amount| Money(amount.hundredths());
    let (amount, currency) = booking.price.clone().unzip();
    let (amount, credit_used) = (amount.map(money), booking.credit_used.map(money));
    stage::move_to(state, id, Stage::TripBooked, None, cause, ctx)?;
    invoice::confirm(state, id, Booking { booking_ref, amount, currency, credit_used }, cause, ctx)?;
    Ok(id)
}

/// Cancels a booking of the agency.
fn cancel(
    state: &mut TenantState,
    booking: &BookingCancel,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<LeadId, WriteRefusal> {
    let booking_ref = booking.booking_ref.as_str();
    let lead_id = state.invoices.get(&booking_ref.to_owned()).ok_or(WriteRefusal::NotFound)?.lead_id;
    let reason = booking.reason.get().map(Line::as_str);
    invoice::cancel(state, booking_ref, reason, cause, ctx)?;
    Ok(lead_id)
}

#[cfg(test)]
mod tests;
