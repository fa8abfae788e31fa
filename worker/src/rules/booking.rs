//! `booking.started`, `booking.abandoned` and `booking.completed` (specification: States and transitions;
//! D11, D12, D30).

use super::invoice::{self, Confirmation};
use super::payload::{FieldReader, FieldResult, Payload, Rejected, trimmed};
use super::warnings::{BOOKING_CANCELLED, BOOKING_FIELD, BOOKING_REF_CONFLICT, ENQUIRY_NOT_FOUND, NO_OPEN_ENQUIRY};
use super::{Context, Event, EventEffects, InternalError, Refusal, Warnings, contact, lead, money, stage};
use crate::state::{Lead, TenantState};
use common::model::{ClientId, LeadId, Stage, TripId, text};
use serde_json::value::RawValue;

/// How a booking event names its lead: by the first of these fields that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeadReference {
    /// The field `leadId` of the payload.
    Lead(LeadId),
    /// The field `tripId` of the payload.
    Trip(TripId),
    /// The field `externalLeadId` of the payload: it names the client's newest lead with that external id.
    External(String),
    /// The field is invalid and names no lead.
    Unreadable,
}

/// `booking.started`: advances the open lead to `proposal_approved`; never moves it back.
pub(super) fn apply_started(
    state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>,
) -> Result<EventEffects, Refusal> {
    let mut booking = BookingEvent::of(state, event, ctx)?;
    let target = booking.target(state, |client| state.open_lead(client)).filter(|lead| lead.stage.is_open());
    let target = target.map(|lead| (lead.id, lead.stage));
    if let Some((lead_id, at)) = target
        && Stage::ProposalApproved.is_further_than(at)
    {
        stage::move_to(state, lead_id, Stage::ProposalApproved, None, &event.cause(), ctx)?;
    }
    Ok(booking.applied(state, target.map(|(lead_id, _)| lead_id)))
}

/// `booking.abandoned`: flags the open lead for follow-up.
pub(super) fn apply_abandoned(
    state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>,
) -> Result<EventEffects, Refusal> {
    let mut booking = BookingEvent::of(state, event, ctx)?;
    let target = booking.target(state, |client| state.open_lead(client)).filter(|lead| lead.stage.is_open());
    let target = target.map(|lead| (lead.id, lead.follow_up));
    if let Some((lead_id, false)) = target {
        lead::change(state, lead_id, ctx.now, |lead| lead.follow_up = true)?;
    }
    Ok(booking.applied(state, target.map(|(lead_id, _)| lead_id)))
}

/// `booking.completed`: moves the lead from any stage to `trip_booked`, and with a `bookingRef` makes its invoice and
/// emits `booking.confirmed` (D12). With the reference of a canceled booking it does neither, and has a warning (D30).
pub(super) fn apply_completed(
    state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>,
) -> Result<EventEffects, Refusal> {
    let mut booking = BookingEvent::of(state, event, ctx)?;
    let newest = |client| state.open_lead(client).or_else(|| state.leads_of(client).next_back());
    let target = booking.target(state, newest).map(|lead| lead.id);
    if booking.is_of_cancelled(state) {
        booking.warnings.push(BOOKING_CANCELLED);
    } else if let Some(lead_id) = target {
        stage::move_to(state, lead_id, Stage::TripBooked, None, &event.cause(), ctx)?;
        booking.invoice(state, lead_id, event, ctx)?;
    }
    Ok(booking.applied(state, target))
}

/// How a payload names its lead. Null and blank fields count as absent; an invalid one names no lead (`enquiry_not_found`).
pub(crate) fn lead_reference(payload: &Payload<'_>) -> Option<LeadReference> {
    let read = |field, name: fn(String) -> Option<LeadReference>| match payload.read(field, trimmed(usize::MAX)) {
        Ok(sent) => sent.map(|text| name(text).unwrap_or(LeadReference::Unreadable)),
        Err(Rejected) => Some(LeadReference::Unreadable),
    };
    read("leadId", |text| LeadId::parse(&text).map(LeadReference::Lead))
        .or_else(|| read("tripId", |text| TripId::parse(&text).map(LeadReference::Trip)))
        .or_else(|| read("externalLeadId", |text| Some(LeadReference::External(text))))
}

/// A booking's reference, trimmed.
pub(crate) fn booking_ref(raw: &RawValue) -> FieldResult<String> {
    trimmed(text::BOOKING_REF)(raw)?.map(Some).ok_or(Rejected)
}

/// A booking event whose contact is upserted.
struct BookingEvent<'a> {
    payload: Payload<'a>,
    client_id: ClientId,
    warnings: Warnings,
}

impl<'a> BookingEvent<'a> {
    /// Upserts the contact, as every booking event does.
    fn of(state: &mut TenantState, event: &'a Event<'_>, ctx: &mut Context<'_>) -> Result<Self, InternalError> {
        let payload = event.payload()?;
        let mut warnings = Warnings::default();
        let client_id = contact::upsert(state, &event.identity(), &mut warnings, ctx);
        Ok(Self { payload, client_id, warnings })
    }

    /// The named lead, or the one that `otherwise` finds for the client if none is named. If the named lead is not found
    /// or belongs to another client, adds a warning and returns none (D11).
    fn target<'s>(
        &mut self, state: &'s TenantState, otherwise: impl FnOnce(ClientId) -> Option<&'s Lead>,
    ) -> Option<&'s Lead> {
        let Some(name) = lead_reference(&self.payload) else { return otherwise(self.client_id) };
        let found = find_lead(state, self.client_id, &name);
        if found.is_none() {
            self.warnings.push(ENQUIRY_NOT_FOUND);
        }
        found
    }

    /// Whether the event has the reference of a canceled booking.
    fn is_of_cancelled(&self, state: &TenantState) -> bool {
        let reference = self.payload.read("bookingRef", booking_ref).ok().flatten();
        let invoice = reference.and_then(|reference| state.invoices.get(&reference));
        invoice.is_some_and(|invoice| invoice.cancelled_at.is_some())
    }

    /// Makes the invoice of a completed booking that has a reference. An existing invoice with that reference does not
    /// change.
    fn invoice(
        &mut self, state: &mut TenantState, lead_id: LeadId, event: &Event<'_>, ctx: &mut Context<'_>,
    ) -> Result<(), InternalError> {
        let mut fields = FieldReader { payload: &self.payload, kind: BOOKING_FIELD, warnings: &mut self.warnings };
        let Some(booking_ref) = fields.field("bookingRef", booking_ref) else { return Ok(()) };
        let booking = invoice::Booking {
            booking_ref,
            amount: fields.field("amount", money::amount),
            currency: fields.field("currency", money::currency),
            credit_used: fields.field("creditUsed", money::amount),
        };
        match invoice::confirm(state, lead_id, booking, &event.cause(), ctx)? {
            Confirmation::New | Confirmation::Repeated => {}
            Confirmation::OfOtherLead(_) => self.warnings.push(BOOKING_REF_CONFLICT),
        }
        Ok(())
    }

    fn applied(mut self, state: &TenantState, lead_id: Option<LeadId>) -> EventEffects {
        if lead_id.is_none() && !self.warnings.contains(ENQUIRY_NOT_FOUND) {
            self.warnings.push(NO_OPEN_ENQUIRY);
        }
        let trip_id = lead_id.and_then(|lead_id| lead::trip_id(state, lead_id));
        EventEffects { client_id: self.client_id, lead_id, trip_id, discovery_id: None, warnings: self.warnings }
    }
}

fn find_lead<'s>(state: &'s TenantState, client: ClientId, name: &LeadReference) -> Option<&'s Lead> {
    let lead = match name {
        LeadReference::Lead(id) => state.leads.get(id),
        LeadReference::Trip(id) => state.trips.get(id).and_then(|trip| state.leads.get(&trip.lead_id)),
        LeadReference::External(id) => state.leads_of(client).rev().find(|lead| lead.external_id.as_ref() == Some(id)),
        LeadReference::Unreadable => None,
    };
    lead.filter(|lead| lead.client_id == client)
}

#[cfg(test)]
mod tests;
