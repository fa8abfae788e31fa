//! Opening an enquiry: the same function for `enquiry.submitted`, discovery, `POST /leads` and advisors.

use super::payload::{Payload, Reader, trimmed, verbatim};
use super::warnings::{BRIEF_FIELD, ITINERARY_REJECTED};
use super::{Applied, Cause, Context, Event, InternalError, Refusal, Warnings, brief, contact, routing};
use crate::state::{InboxKind, InboxMessage, Itinerary, Lead, Proposal, TenantState, Trip};
use common::model::{Brief, ClientId, LeadId, ProposalId, Stage, TripId, text};
use serde_json::Value;

/// An enquiry to be opened.
#[derive(Clone, Debug)]
pub struct NewEnquiry {
    /// Whose it is.
    pub client_id: ClientId,
    /// Title advisors see; one is made up where none was sent.
    pub title: Option<String>,
    /// Caller's own id.
    pub external_id: Option<String>,
    /// What the traveller asked for.
    pub brief: Brief,
    /// The marketing block, a JSON object.
    pub attribution: Option<Value>,
    /// A valid itinerary snapshot's JSON text, for the draft proposal.
    pub itinerary: Option<String>,
    /// The customer's words: opens the inbox thread.
    pub message: Option<String>,
    /// Whether a trip workspace opens with it. Only an advisor can do without.
    pub with_trip: bool,
}

impl NewEnquiry {
    /// An enquiry of which nothing is known but whose it is.
    pub fn unstated(client_id: ClientId) -> Self {
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

    /// Reads what an `enquiry.submitted` states (D15).
    fn read(client_id: ClientId, payload: &Payload<'_>, warnings: &mut Warnings) -> Self {
        let mut fields = Reader { payload, kind: BRIEF_FIELD, warnings };
        let brief = brief::read(&mut fields);
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

/// An enquiry that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The enquiry.
    pub lead_id: LeadId,
    /// Its trip workspace.
    pub trip_id: Option<TripId>,
}

/// Opens an enquiry at `inquiry` with the next enquiry number, routes it to an advisor (D16) and opens its
/// trip workspace with a draft proposal (D20). A new enquiry's first stage is no stage change (D25).
pub fn open(
    state: &mut TenantState,
    new: NewEnquiry,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<Opened, InternalError> {
    let (year, sequence) = ctx.numbers.take()?;
    let client = state.client(new.client_id).ok_or(InternalError("the client of a new enquiry is there"))?;
    let title = title(&new, &client.name);
    let lead_id = LeadId((ctx.next_id)());
    let owner = routing::in_turn(&state.members, sequence).map(|member| member.email.clone());
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
    if let Some(words) = new.message {
        post_message(state, lead_id, words, cause, ctx);
    }
    let routing = Cause { trail: cause.trail, ..Cause::crm(ctx.now) };
    routing::announce(state, lead_id, None, &routing, ctx)?;
    Ok(Opened { lead_id, trip_id })
}

/// `enquiry.submitted`.
pub(super) fn submitted(
    state: &mut TenantState,
    event: &Event<'_>,
    ctx: &mut Context<'_>,
) -> Result<Applied, Refusal> {
    let payload = event.payload()?;
    let mut warnings = Warnings::default();
    let client_id = contact::upsert(state, &event.identity(), &mut warnings, ctx);
    let new = NewEnquiry::read(client_id, &payload, &mut warnings);
    let Opened { lead_id, trip_id } = open(state, new, &event.cause(), ctx)?;
    Ok(Applied { client_id, lead_id: Some(lead_id), trip_id, discovery_id: None, warnings })
}

/// The title sent, else one of the destination, else of the client.
fn title(new: &NewEnquiry, client_name: &str) -> String {
    let of_destination =
        || new.brief.destination.as_ref().map(|destination| format!("Trip to {destination}"));
    let title =
        new.title.clone().or_else(of_destination).unwrap_or_else(|| format!("Enquiry from {client_name}"));
    title.chars().take(text::NAME).collect()
}

fn open_trip(
    state: &mut TenantState,
    lead_id: LeadId,
    title: String,
    brief: Brief,
    itinerary: Option<String>,
    ctx: &mut Context<'_>,
) -> TripId {
    let (trip_id, proposal_id) = (TripId((ctx.next_id)()), ProposalId((ctx.next_id)()));
    let now = ctx.now;
    state
        .trips
        .insert(trip_id, Trip { id: trip_id, lead_id, title, brief, created_at: now, updated_at: now });
    state.proposals.insert(proposal_id, Proposal::draft(proposal_id, trip_id, now));
    if let Some(snapshot) = itinerary {
        state.itineraries.insert(proposal_id, Itinerary { proposal_id, snapshot, updated_at: now });
    }
    trip_id
}

/// The words were said when what caused the enquiry happened.
fn post_message(
    state: &mut TenantState,
    lead_id: LeadId,
    words: String,
    cause: &Cause,
    ctx: &mut Context<'_>,
) {
    state.inbox.push(InboxMessage {
        message_id: (ctx.next_id)(),
        lead_id,
        at: cause.occurred_at,
        kind: InboxKind::Message,
        text: Some(words),
        changes: None,
    });
}

#[cfg(test)]
mod tests;
