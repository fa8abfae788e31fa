//! `POST /leads` and `PATCH /leads/{leadId}`.

use super::{Record, check_version};
use crate::rules::contact::{self, ContactIdentity};
use crate::rules::new_lead::{self, NewLead};
use crate::rules::{Cause, Context, InternalError, Warnings, WriteError, lead, routing, stage};
use crate::state::{Lead, TenantState};
use common::event::Actor;
use common::model::{ClientId, LeadId, Stage, text};
use common::record::{LeadBody, LeadPatch};
use common::write::{IfMatch, WriteRefusal};

/// Opens a lead like `enquiry.submitted`: the client is matched or created, the lead is routed, a trip workspace is opened.
pub(super) fn open(
    state: &mut TenantState, body: &LeadBody, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<Record, WriteError> {
    let brief = body.brief();
    let attribution = body.attribution.get().and_then(common::record::Attribution::block);
    let client_id = client(state, body, ctx)?;
    let new = NewLead {
        title: body.title.clone().into_string(),
        external_id: body.external_id.clone().into_string(),
        brief,
        attribution,
        itinerary: body.itinerary.clone().into_string(),
        message: body.message.clone().into_string(),
        ..NewLead::for_client(client_id)
    };
    Ok(Record::Lead(new_lead::open(state, new, cause, ctx)?.lead_id))
}

/// The client with the given `clientId`, which is unknown if its form is wrong (D18); without one, the client that matches the
/// contact, or a new one.
fn client(state: &mut TenantState, body: &LeadBody, ctx: &mut Context<'_>) -> Result<ClientId, WriteRefusal> {
    if let Some(named) = body.client_id.get() {
        let id = ClientId::parse(named.as_str()).ok_or(WriteRefusal::NotFound)?;
        return state.client(id).map(|client| client.id).ok_or(WriteRefusal::NotFound);
    }
    let contact: Actor = body.contact.get().cloned().map(Actor::from).unwrap_or_default();
    let identity = ContactIdentity::from(&contact);
    if identity.key().is_none() {
        return Err(WriteRefusal::IdentityRequired);
    }
    Ok(contact::upsert(state, &identity, &mut Warnings::default(), ctx))
}

/// Changes stage, owner, follow-up flag and title.
pub(super) fn change(
    state: &mut TenantState, id: LeadId, patch: &LeadPatch, if_match: Option<&IfMatch>, cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<Record, WriteError> {
    let before = state.leads.get(&id).ok_or(WriteRefusal::NotFound)?.clone();
    check_version(if_match, before.updated_at)?;
    let reason = patch.reason.get().map(|reason| reason.as_str().trim());
    let reason = reason.filter(|reason| !text::is_blank(reason));
    let to = patch.stage.get().copied();
    if let Some(to) = to {
        check_stage_of_api(state, id, to, reason)?;
    }
    let owner = patch.owner.get().map(|owner| owner.key().to_owned());
    if let Some(owner) = &owner {
        routing::check_member(state, owner)?;
    }
    set_fields(state, &before, patch, ctx)?;
    if let Some(to) = to {
        stage::move_to(state, id, to, reason, cause, ctx)?;
    }
    if let Some(owner) = owner {
        routing::assign(state, id, owner, cause, ctx)?;
    }
    Ok(Record::Lead(id))
}

/// Sets follow-up flag and title, if they differ.
fn set_fields(
    state: &mut TenantState, before: &Lead, patch: &LeadPatch, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let follow_up = patch.follow_up.get().copied().unwrap_or(before.follow_up);
    let title = patch.title.get().map_or(before.title.as_str(), |title| title.as_str());
    if follow_up != before.follow_up || title != before.title {
        lead::change(state, before.id, ctx.now, |lead| {
            lead.follow_up = follow_up;
            title.clone_into(&mut lead.title);
        })?;
    }
    Ok(())
}

/// Refuses stages that the API may not set (specification: States and transitions; D21).
fn check_stage_of_api(state: &TenantState, id: LeadId, to: Stage, reason: Option<&str>) -> Result<(), WriteRefusal> {
    match to {
        Stage::Inquiry | Stage::FollowUp | Stage::BuildingProposal | Stage::Negotiation | Stage::Lost => {
            stage::check_move(state, id, to, reason)
        }
        Stage::ProposalApproved | Stage::TripBooked | Stage::Travelled | Stage::Archived => {
            Err(WriteRefusal::StageNotAllowed)
        }
    }
}

#[cfg(test)]
mod tests;
