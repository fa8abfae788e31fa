//! The proposal of a trip: sent, opened, discarded (D20, D25). A trip has one proposal that counts, its newest.

use super::{Cause, Context, InternalError, lead, outbound};
use crate::state::{Proposal, ProposalStatus, TenantState};
use common::model::{LeadId, ProposalId};
use common::write::WriteRefusal;

/// What is sent to the traveller.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Title of the proposal.
    pub title: &'a str,
    /// Where the traveller opens it.
    pub url: &'a str,
    /// How it is sent.
    pub channel: &'a str,
}

/// Sends the proposal, whatever became of it before, and emits `proposal.sent`. One that was sent before is sent anew,
/// and nobody has opened it yet.
pub fn send(
    state: &mut TenantState,
    lead_id: LeadId,
    offer: Offer<'_>,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<(), WriteRefusal> {
    let id = find(state, lead_id)?.id;
    let now = ctx.now;
    let sent = change(state, lead_id, id, ctx, |proposal| {
        proposal.status = ProposalStatus::Sent;
        proposal.title = Some(offer.title.to_owned());
        proposal.url = Some(offer.url.to_owned());
        proposal.channel = Some(offer.channel.to_owned());
        proposal.sent_at = Some(now);
        proposal.viewed_at = None;
    })?;
    Ok(outbound::proposal_sent(state, lead_id, &sent, cause, ctx)?)
}

/// The traveller opened the proposal, which must have been sent: emits `proposal.viewed`. Nothing happens when they have
/// opened it before.
pub fn view(
    state: &mut TenantState,
    lead_id: LeadId,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<(), WriteRefusal> {
    let proposal = find(state, lead_id)?;
    let id = proposal.id;
    match proposal.status {
        ProposalStatus::Sent => {}
        ProposalStatus::Viewed => return Ok(()),
        ProposalStatus::Draft | ProposalStatus::Discarded => return Err(WriteRefusal::ProposalNotSent),
    }
    let now = ctx.now;
    let viewed = change(state, lead_id, id, ctx, |proposal| {
        proposal.status = ProposalStatus::Viewed;
        proposal.viewed_at = Some(now);
    })?;
    Ok(outbound::proposal_viewed(state, lead_id, &viewed, cause, ctx)?)
}

/// Throws the proposal away, sent or not.
pub fn discard(state: &mut TenantState, lead_id: LeadId, ctx: &mut Context<'_>) -> Result<(), WriteRefusal> {
    let proposal = find(state, lead_id)?;
    let id = proposal.id;
    if proposal.status != ProposalStatus::Discarded {
        change(state, lead_id, id, ctx, |proposal| proposal.status = ProposalStatus::Discarded)?;
    }
    Ok(())
}

/// The proposal that counts. An enquiry without a trip has none.
fn find(state: &TenantState, lead_id: LeadId) -> Result<&Proposal, WriteRefusal> {
    let trip = state.trip_of(lead_id).ok_or(WriteRefusal::TripNotOpen)?;
    Ok(state.proposal_of(trip.id).ok_or(InternalError("a trip has a proposal"))?)
}

/// Changes the proposal; versions of trip and enquiry grow with it (D19).
fn change(
    state: &mut TenantState,
    lead_id: LeadId,
    id: ProposalId,
    ctx: &Context<'_>,
    change: impl FnOnce(&mut Proposal),
) -> Result<Proposal, InternalError> {
    let found = state.proposals.change(&id);
    let proposal = found.ok_or(InternalError("a proposal that was found is there"))?;
    change(proposal);
    let changed = proposal.clone();
    lead::change(state, lead_id, ctx.now, |_| {})?;
    lead::change_trip(state, lead_id, ctx.now, |_| {});
    Ok(changed)
}
