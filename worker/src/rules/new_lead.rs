//! Opens leads, with their trip, draft proposal, owner and first inbox message, for `enquiry.submitted`, discovery, `POST /leads` and
//! advisor actions alike.

use super::payload::{FieldReader, Payload, trimmed, verbatim};
use super::warnings::{BRIEF_FIELD, ITINERARY_REJECTED};
use super::{Cause, Context, Event, EventEffects, InternalError, Refusal, Warnings, brief, contact, routing};
use crate::state::{InboxKind, InboxMessage, Itinerary, Lead, Proposal, TenantState, Trip};
use common::model::{Brief, ClientId, LeadId, ProposalId, Stage, TripId, text};
use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) struct NewLead {
    pub(crate) client_id: ClientId,
    /// Title for advisors; one is generated if none was sent.
    pub(crate) title: Option<String>,
    /// The caller's own id of the lead.
    pub(crate) external_id: Option<String>,
    /// What the traveler asks for.
    pub(crate) brief: Brief,
    /// The marketing block, a JSON object.
    pub(crate) attribution: Option<Value>,
    /// JSON text of a valid itinerary snapshot, for the draft proposal.
    pub(crate) itinerary: Option<String>,
    /// A message of the customer, which becomes the first one of the inbox thread.
    pub(crate) message: Option<String>,
    /// Whether to open a trip workspace with it. Only advisor actions can open a lead without one.
    pub(crate) with_trip: bool,
}

impl NewLead {
    /// A lead without any field but its client.
    pub(crate) fn for_client(client_id: ClientId) -> Self {
        Self {
            client_id,
            title: None,
            external_id: None,
            brief: Brief::default(),
            attribution: None,
            itinerary: None,
            message: None,
            with_trip: true,
        }
    }

    /// Parses the payload of an `enquiry.submitted` (D15).
    fn parse(client_id: ClientId, payload: &Payload<'_>, warnings: &mut Warnings) -> Self {
        let mut fields = FieldReader { payload, kind: BRIEF_FIELD, warnings };
        let brief = brief::parse_brief(&mut fields);
        let title = fields.field("title", trimmed(text::NAME));
        let message = fields.field("message", verbatim(text::MESSAGE));
        let attribution = fields.field("attribution", brief::attribution);
        let external_id = fields.field("externalLeadId", brief::external_id);
        let itinerary = payload.read("itinerarySnapshot", brief::itinerary).unwrap_or_else(|_| {
            warnings.push(ITINERARY_REJECTED);
            None
        });
        Self { client_id, title, external_id, brief, attribution, itinerary, message, with_trip: true }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenedLead {
    pub(crate) lead_id: LeadId,
    pub(crate) trip_id: Option<TripId>,
}

/// Opens a lead at the stage `inquiry` with the next enquiry number, routes it to an advisor (D16) and opens its trip
/// workspace with a draft proposal (D20). The first stage of a lead emits no stage change (D25).
pub(crate) fn open(
    state: &mut TenantState, new: NewLead, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<OpenedLead, InternalError> {
    let (year, sequence) = ctx.numbers.take()?;
    let client = state.client(new.client_id).ok_or(InternalError("the state holds the client of a new lead"))?;
    let title = title(&new, &client.name);
    let lead_id = LeadId((ctx.next_id)());
    let owner = routing::next_round_robin(&state.members, sequence).map(|member| member.email.clone());
    let (lead_brief, trip_brief) =
        if new.with_trip { (Brief::default(), new.brief) } else { (new.brief, Brief::default()) };
    state.leads.insert(
        lead_id,
        Lead {
            id: lead_id,
            client_id: new.client_id,
            enquiry_number: format!("{}-{year}-{sequence:06}", state.tenant.enquiry_prefix),
            external_id: new.external_id,
            title: title.clone(),
            stage: Stage::Inquiry,
            lost_reason: None,
            follow_up: false,
            owner,
            brief: lead_brief,
            attribution: new.attribution,
            created_at: ctx.now,
            updated_at: ctx.now,
        },
    );
    let trip_id = new.with_trip.then(|| open_trip(state, lead_id, title, trip_brief, new.itinerary, ctx));
    if let Some(message) = new.message {
        post_message(state, lead_id, message, cause, ctx);
    }
    // Routing is done by the CRM, whoever opened the lead (D16).
    let routing_cause = Cause { request_context: cause.request_context, ..Cause::crm(ctx.now) };
    routing::announce_owner(state, lead_id, None, &routing_cause, ctx)?;
    Ok(OpenedLead { lead_id, trip_id })
}

/// Applies an `enquiry.submitted` event: upserts the contact and opens a lead.
pub(super) fn apply_enquiry_submitted(
    state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>,
) -> Result<EventEffects, Refusal> {
    let payload = event.payload()?;
    let mut warnings = Warnings::default();
    let client_id = contact::upsert(state, &event.identity(), &mut warnings, ctx);
    let new = NewLead::parse(client_id, &payload, &mut warnings);
    let OpenedLead { lead_id, trip_id } = open(state, new, &event.cause(), ctx)?;
    Ok(EventEffects { client_id, lead_id: Some(lead_id), trip_id, discovery_id: None, warnings })
}

/// The title that was sent, else one made of the destination or of the client's name.
fn title(new: &NewLead, client_name: &str) -> String {
    let of_destination = || new.brief.destination.as_ref().map(|destination| format!("Trip to {destination}"));
    let title = new.title.clone().or_else(of_destination).unwrap_or_else(|| format!("Enquiry from {client_name}"));
    title.chars().take(text::NAME).collect()
}

fn open_trip(
    state: &mut TenantState, lead_id: LeadId, title: String, brief: Brief, itinerary: Option<String>,
    ctx: &mut Context<'_>,
) -> TripId {
    let (trip_id, proposal_id) = (TripId((ctx.next_id)()), ProposalId((ctx.next_id)()));
    let now = ctx.now;
    state.trips.insert(trip_id, Trip { id: trip_id, lead_id, title, brief, created_at: now, updated_at: now });
    state.proposals.insert(proposal_id, Proposal::draft(proposal_id, trip_id, now));
    if let Some(snapshot) = itinerary {
        state.itineraries.insert(proposal_id, Itinerary { proposal_id, snapshot, updated_at: now });
    }
    trip_id
}

/// Adds the customer's message to the inbox, at the time of the cause.
fn post_message(state: &mut TenantState, lead_id: LeadId, message: String, cause: &Cause, ctx: &mut Context<'_>) {
    state.inbox.push(InboxMessage {
        message_id: (ctx.next_id)(),
        lead_id,
        at: cause.occurred_at,
        kind: InboxKind::Message,
        text: Some(message),
        changes: None,
    });
}

#[cfg(test)]
mod tests;
