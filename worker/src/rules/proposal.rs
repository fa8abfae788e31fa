//! Sending, viewing and discarding the proposal of a trip (D20, D25). Only a trip's newest proposal matters.

use super::{Cause, Context, InternalError, WriteError, lead, outbound};
use crate::state::{Proposal, ProposalStatus, TenantState};
use common::model::{LeadId, ProposalId};
use common::write::WriteRefusal;

/// The content of a sent proposal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) title: &'a str,
    /// URL at which the traveler opens it.
    pub(crate) url: &'a str,
    /// Channel by which it is sent, such as `email`.
    pub(crate) channel: &'a str,
}

/// Marks the proposal as sent, whatever its status was, and emits `proposal.sent`. A proposal that was sent before is
/// sent again and counts as not viewed.
pub(crate) fn send(
    state: &mut TenantState, lead_id: LeadId, offer: Offer<'_>, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<(), WriteError> {
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

/// Marks the proposal, which must have been sent, as viewed by the traveler, and emits `proposal.viewed`. Does nothing if
/// it was viewed before.
pub(crate) fn view(
    state: &mut TenantState, lead_id: LeadId, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<(), WriteError> {
    let proposal = find(state, lead_id)?;
    let id = proposal.id;
    match proposal.status {
        ProposalStatus::Sent => {}
        ProposalStatus::Viewed => return Ok(()),
        ProposalStatus::Draft | ProposalStatus::Discarded => return Err(WriteRefusal::ProposalNotSent.into()),
    }
    let now = ctx.now;
    let viewed = change(state, lead_id, id, ctx, |proposal| {
        proposal.status = ProposalStatus::Viewed;
        proposal.viewed_at = Some(now);
    })?;
    Ok(outbound::proposal_viewed(state, lead_id, &viewed, cause, ctx)?)
}

/// Discards the proposal, whether it was sent or not.
pub(crate) fn discard(state: &mut TenantState, lead_id: LeadId, ctx: &mut Context<'_>) -> Result<(), WriteError> {
    let proposal = find(state, lead_id)?;
    let id = proposal.id;
    if proposal.status != ProposalStatus::Discarded {
        change(state, lead_id, id, ctx, |proposal| proposal.status = ProposalStatus::Discarded)?;
    }
    Ok(())
}

/// The newest proposal. A lead without a trip has none.
fn find(state: &TenantState, lead_id: LeadId) -> Result<&Proposal, WriteError> {
    let trip = state.trip_of(lead_id).ok_or(WriteRefusal::TripNotOpen)?;
    Ok(state.proposal_of(trip.id).ok_or(InternalError("a trip has a proposal"))?)
}

/// Changes the proposal and increases the versions of trip and lead (D19).
fn change(
    state: &mut TenantState, lead_id: LeadId, id: ProposalId, ctx: &Context<'_>, change: impl FnOnce(&mut Proposal),
) -> Result<Proposal, InternalError> {
    let found = state.proposals.change(&id);
    let proposal = found.ok_or(InternalError("the state holds a proposal that was found"))?;
    change(proposal);
    let changed = proposal.clone();
    lead::change(state, lead_id, ctx.now, |_| {})?;
    lead::change_trip(state, lead_id, ctx.now, |_| {});
    Ok(changed)
}
