//! Builds outbound events (specification: Outbound webhook events; D24, D25).

use super::{Cause, Context, InternalError, lead, money};
use crate::state::{Invoice, OutboundEvent, Proposal, TenantState};
use common::clock;
use common::event::OutboundType;
use common::model::{Email, LeadId, Phone, Stage};
use serde_json::{Map, Value, json};

/// Fields of an event's payload, by name.
pub(crate) type PayloadFields = Map<String, Value>;

/// Emits an event about a lead. Every payload contains `leadId`, `tripId`, `clientId`, `enquiryNumber` and
/// `externalId` where they exist (D25), and `version`, the lead's (D46). The caller has made or changed the lead after the event
/// before, so that the versions of its events strictly grow. For a tenant without subscriptions the envelope stays empty, and
/// `TenantState::emitted` returns no events.
pub(crate) fn emit(
    state: &mut TenantState, event_type: OutboundType, lead_id: LeadId, fields: PayloadFields, cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let mut payload = lead_fields(state, lead_id)?;
    payload.extend(fields);
    let mut event = OutboundEvent {
        event_id: (ctx.next_id)(),
        event_type,
        key_prefix: cause.key_prefix.clone(),
        origin: cause.origin.clone(),
        occurred_at: cause.occurred_at,
        request_context: cause.request_context,
        client_id: lead::get(state, lead_id)?.client_id,
        payload: Value::Object(payload),
        envelope: String::new(),
    };
    if state.tenant.has_subscriptions {
        event.envelope = envelope(state, &event);
    }
    state.outbox.push(event);
    Ok(())
}

/// The body of the webhook (specification: Event envelope); its actor is the client.
fn envelope(state: &TenantState, event: &OutboundEvent) -> String {
    let mut actor = json!({"type": "contact"});
    if let Some(client) = state.client(event.client_id) {
        actor["name"] = client.name.as_str().into();
        let identities = [
            ("email", client.email.as_ref().map(Email::as_str)),
            ("phone", client.phone.as_ref().map(Phone::as_str)),
            ("externalId", client.external_id.as_deref()),
        ];
        for (name, identity) in identities {
            if let Some(identity) = identity {
                actor[name] = identity.into();
            }
        }
    }
    json!({
        "specVersion": "1.0",
        "eventId": event.event_id,
        "eventType": event.event_type.as_str(),
        "occurredAt": clock::to_text(event.occurred_at),
        "tenant": state.tenant.slug,
        "origin": event.origin,
        "actor": actor,
        "payload": event.payload,
    })
    .to_string()
}

/// Emits `lead.assigned` with the lead's owner, and with the member whose email is `previous` as the previous owner.
pub(crate) fn lead_assigned(
    state: &mut TenantState, lead_id: LeadId, previous: Option<&str>, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let owner = member(state, lead::get(state, lead_id)?.owner.as_deref());
    let fields = payload_fields([("owner", owner), ("previousOwner", member(state, previous))]);
    emit(state, OutboundType::LeadAssigned, lead_id, fields, cause, ctx)
}

/// Emits `lead.stage_changed` with both stages and the reason.
pub(crate) fn lead_stage_changed(
    state: &mut TenantState, lead_id: LeadId, (from, to): (Stage, Stage), reason: Option<&str>, cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let fields = payload_fields([("from", json!(from)), ("to", json!(to)), ("reason", json!(reason))]);
    emit(state, OutboundType::LeadStageChanged, lead_id, fields, cause, ctx)
}

/// Emits `booking.confirmed`, with amounts in major units. `creditUsed` is present only if credit was stated.
pub(crate) fn booking_confirmed(
    state: &mut TenantState, invoice: &Invoice, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let mut fields = payload_fields([
        ("bookingRef", json!(invoice.booking_ref)),
        ("amount", invoice.amount.map_or(Value::Null, money::to_json)),
        ("currency", json!(invoice.currency)),
    ]);
    if let Some(credit) = invoice.credit_used {
        fields.insert("creditUsed".to_owned(), money::to_json(credit));
    }
    emit(state, OutboundType::BookingConfirmed, invoice.lead_id, fields, cause, ctx)
}

/// Emits `booking.cancelled` with the reference of the `booking.confirmed` that it cancels.
pub(crate) fn booking_cancelled(
    state: &mut TenantState, invoice: &Invoice, reason: Option<&str>, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let fields = payload_fields([("bookingRef", json!(invoice.booking_ref)), ("reason", json!(reason))]);
    emit(state, OutboundType::BookingCancelled, invoice.lead_id, fields, cause, ctx)
}

/// Emits `proposal.sent` with the proposal's content and `sentAt`.
pub(crate) fn proposal_sent(
    state: &mut TenantState, lead_id: LeadId, proposal: &Proposal, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    emit(state, OutboundType::ProposalSent, lead_id, proposal_fields(proposal), cause, ctx)
}

/// Emits `proposal.viewed` with the fields of `proposal.sent` and `viewedAt`.
pub(crate) fn proposal_viewed(
    state: &mut TenantState, lead_id: LeadId, proposal: &Proposal, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let mut fields = proposal_fields(proposal);
    fields.insert("viewedAt".to_owned(), json!(proposal.viewed_at.map(clock::to_text)));
    emit(state, OutboundType::ProposalViewed, lead_id, fields, cause, ctx)
}

fn proposal_fields(proposal: &Proposal) -> PayloadFields {
    payload_fields([
        ("proposalId", json!(proposal.id)),
        ("title", json!(proposal.title)),
        ("proposalUrl", json!(proposal.url)),
        ("channel", json!(proposal.channel)),
        ("sentAt", json!(proposal.sent_at.map(clock::to_text))),
    ])
}

/// Collects pairs of name and value.
pub(crate) fn payload_fields<const N: usize>(pairs: [(&str, Value); N]) -> PayloadFields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn lead_fields(state: &TenantState, lead_id: LeadId) -> Result<PayloadFields, InternalError> {
    let lead = lead::get(state, lead_id)?;
    let mut fields = payload_fields([
        ("leadId", json!(lead.id)),
        ("clientId", json!(lead.client_id)),
        ("enquiryNumber", json!(lead.enquiry_number)),
        ("version", json!(clock::to_text(lead.updated_at))),
    ]);
    if let Some(trip_id) = lead::trip_id(state, lead_id) {
        fields.insert("tripId".to_owned(), json!(trip_id));
    }
    if let Some(external_id) = &lead.external_id {
        fields.insert("externalId".to_owned(), json!(external_id));
    }
    Ok(fields)
}

/// `{email, name}` of a member, null for none.
fn member(state: &TenantState, email: Option<&str>) -> Value {
    let Some(email) = email else { return Value::Null };
    let name = state.member(email).map(|member| &member.name);
    json!({"email": email, "name": name})
}
