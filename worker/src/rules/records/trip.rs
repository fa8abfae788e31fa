//! `PATCH /leads/{leadId}/trip`: changes of a trip by the customer.

use super::{Record, check_version};
use crate::rules::{Cause, Context, InternalError, WriteError, lead, routing};
use crate::state::{InboxKind, InboxMessage, Itinerary, NotificationKind, ProposalStatus, TenantState, Trip};
use common::model::{Brief, LeadId, ProposalId, Stage};
use common::record::{Nationality, TripPatch};
use common::write::{IfMatch, WriteRefusal};
use serde_json::{Map, Value, json};

common::named! {
    /// Why an itinerary was not applied (specification: Trip; D20). Names are those in the API.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum NotApplied {
        /// The stage is past `follow_up`: the advisor works on the lead.
        AdvisorWorking = "advisor_working",
        /// A proposal was sent.
        ProposalSent = "proposal_sent",
        /// The advisor discarded the draft.
        NoProposal = "no_proposal",
        /// The itinerary could not be stored; the rest of the change was.
        UpdateFailed = "update_failed",
    }
}

/// Changes the brief, replaces the draft's itinerary if the rules allow it, posts the changes with old and new values to
/// the inbox thread, and notifies the owner.
pub(super) fn change(
    state: &mut TenantState, id: LeadId, patch: &TripPatch, if_match: Option<&IfMatch>, skip_itinerary: bool,
    cause: &Cause, ctx: &mut Context<'_>,
) -> Result<Record, WriteError> {
    let stage = state.leads.get(&id).ok_or(WriteRefusal::NotFound)?.stage;
    if !stage.is_open() {
        return Err(WriteRefusal::TripClosed { stage }.into());
    }
    let before = state.trip_of(id).ok_or(WriteRefusal::TripNotOpen)?.clone();
    check_version(if_match, before.updated_at)?;
    let after = patched(&before, patch);
    let mut changes = changes(&before, &after);
    let dates = changes.remove("travelDates");
    if after != before || has_more_than_fields(patch) {
        store(state, id, &before, after, ctx)?;
    }
    let itinerary = patch
        .itinerary
        .get()
        .map(|itinerary| apply_itinerary(state, stage, &before, itinerary.as_str(), skip_itinerary, ctx));
    if let Some(outcome) = itinerary {
        changes.insert("itinerary".to_owned(), itinerary_outcome(outcome));
    }
    post_changes(state, id, patch, dates, changes, cause, ctx)?;
    Ok(Record::Trip(id, itinerary))
}

/// The trip after the change: with the fields that were sent.
fn patched(before: &Trip, patch: &TripPatch) -> Trip {
    let mut after = before.clone();
    if let Some(title) = patch.title.get() {
        title.as_str().clone_into(&mut after.title);
    }
    if let Some(destination) = patch.destination.get() {
        after.brief.destination = Some(destination.as_str().to_owned());
    }
    if let Some(dates) = patch.travel_dates.get() {
        after.brief.travel_dates = Some(*dates);
    }
    if let Some(party) = patch.party.get() {
        after.brief.party = Some(party.clone());
    }
    if let Some(budget) = patch.budget.get() {
        after.brief.budget = Some(budget.clone());
    }
    if let Some(nationality) = patch.guest_nationality.get() {
        after.brief.guest_nationality = Nationality::into_option(nationality.clone());
    }
    after
}

/// The fields that differ, each as `{from, to}`.
fn changes(before: &Trip, after: &Trip) -> Map<String, Value> {
    let facts = |trip: &Trip| {
        let Brief { destination, travel_dates, party, budget, guest_nationality } = &trip.brief;
        [
            ("title", json!(trip.title)),
            ("destination", json!(destination)),
            ("travelDates", json!(travel_dates)),
            ("party", json!(party)),
            ("budget", json!(budget)),
            ("guestNationality", json!(guest_nationality)),
        ]
    };
    let pairs = facts(before).into_iter().zip(facts(after));
    let differing = pairs.filter(|((_, from), (_, to))| from != to);
    differing.map(|((name, from), (_, to))| (name.to_owned(), json!({"from": from, "to": to}))).collect()
}

/// Whether the patch contains an itinerary, a message or a summary.
fn has_more_than_fields(patch: &TripPatch) -> bool {
    patch.itinerary.is_sent() || patch.message.is_sent() || patch.change_summary.is_sent()
}

/// Stores the trip under a new version, even if only its itinerary or its inbox thread changes: of two PATCHes with one
/// ETag exactly one succeeds (D19). The lead shows the brief, so a changed brief also increases the lead's version.
fn store(
    state: &mut TenantState, id: LeadId, before: &Trip, after: Trip, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    if after.brief != before.brief {
        lead::change(state, id, ctx.now, |_| {})?;
    }
    lead::change_trip(state, id, ctx.now, |trip| {
        trip.title = after.title;
        trip.brief = after.brief;
    });
    Ok(())
}

/// Replaces the draft's itinerary, while the lead is at `inquiry` or `follow_up` and no proposal was sent
/// (specification: States and transitions).
fn apply_itinerary(
    state: &mut TenantState, stage: Stage, trip: &Trip, snapshot: &str, skip: bool, ctx: &mut Context<'_>,
) -> Result<(), NotApplied> {
    let proposal_id = replaceable(state, stage, trip)?;
    if skip {
        return Err(NotApplied::UpdateFailed);
    }
    let itinerary = Itinerary { proposal_id, snapshot: snapshot.to_owned(), updated_at: ctx.now };
    state.itineraries.insert(proposal_id, itinerary);
    Ok(())
}

/// The draft whose itinerary can be replaced.
fn replaceable(state: &TenantState, stage: Stage, trip: &Trip) -> Result<ProposalId, NotApplied> {
    let own = || state.proposals.values().filter(|proposal| proposal.trip_id == trip.id);
    if own().any(|proposal| matches!(proposal.status, ProposalStatus::Sent | ProposalStatus::Viewed)) {
        return Err(NotApplied::ProposalSent);
    }
    let draft = own().rfind(|proposal| proposal.status == ProposalStatus::Draft);
    let draft = draft.ok_or(NotApplied::NoProposal)?;
    match stage {
        Stage::Inquiry | Stage::FollowUp => Ok(draft.id),
        Stage::BuildingProposal
        | Stage::Negotiation
        | Stage::ProposalApproved
        | Stage::TripBooked
        | Stage::Travelled
        | Stage::Lost
        | Stage::Archived => Err(NotApplied::AdvisorWorking),
    }
}

fn itinerary_outcome(outcome: Result<(), NotApplied>) -> Value {
    match outcome {
        Ok(()) => json!({"applied": true}),
        Err(reason) => json!({"applied": false, "reason": reason.as_str()}),
    }
}

/// Posts to the inbox thread: a correction of the dates with its reason, the other changes, the customer's message.
/// Notifies the owner if anything was posted.
fn post_changes(
    state: &mut TenantState, id: LeadId, patch: &TripPatch, dates: Option<Value>, changes: Map<String, Value>,
    cause: &Cause, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let summary = patch.change_summary.get().map(|summary| summary.as_str().to_owned());
    let posted = state.inbox.len();
    let has_correction = dates.is_some();
    if let Some(dates) = dates {
        let changes = json!({"travelDates": dates});
        post_message(state, id, InboxKind::Correction, summary.clone(), Some(changes), cause, ctx);
    }
    if !changes.is_empty() || (summary.is_some() && !has_correction) {
        let changes = (!changes.is_empty()).then_some(Value::Object(changes));
        post_message(state, id, InboxKind::Change, summary, changes, cause, ctx);
    }
    if let Some(words) = patch.message.get() {
        post_message(state, id, InboxKind::Message, Some(words.as_str().to_owned()), None, cause, ctx);
    }
    if state.inbox.len() > posted {
        let lead = lead::get(state, id)?;
        let text = format!("The traveler changed the trip of {}", lead.enquiry_number);
        if let Some(owner) = lead.owner.clone() {
            routing::notify_member(state, owner, NotificationKind::TripChanged, id, text, ctx);
        }
    }
    Ok(())
}

fn post_message(
    state: &mut TenantState, lead_id: LeadId, kind: InboxKind, text: Option<String>, changes: Option<Value>,
    cause: &Cause, ctx: &mut Context<'_>,
) {
    let message_id = (ctx.next_id)();
    state.inbox.push(InboxMessage { message_id, lead_id, at: cause.occurred_at, kind, text, changes });
}

#[cfg(test)]
mod tests;
