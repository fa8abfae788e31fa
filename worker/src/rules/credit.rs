//! Corporate credit: `booking.credit_applied` and `employee.credit_updated` (specification: Inbound event
//! types; D15b).

use super::payload::{FieldReader, FieldResult, Payload, Rejected, amount, instant, trimmed, whole};
use super::warnings::CREDIT_FIELD;
use super::{Context, Event, EventEffects, InternalError, Refusal, Warnings, contact, lead, money, routing};
use crate::state::{Credit, CreditState, Invoice, Money, NotificationKind, TenantState};
use chrono::{DateTime, TimeDelta, Utc};
use common::model::{ClientId, TripId, text};
use common::version::next_version;
use serde_json::value::RawValue;

/// How far `asOf` may be ahead of the clock. A later one would keep every newer balance out.
const AHEAD_MAX: TimeDelta = TimeDelta::days(1);

/// How `booking.credit_applied` names its invoice: by the first of these fields that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InvoiceReference {
    /// The field `bookingRef` of the payload.
    Ref(String),
    /// The field `tripId` of the payload: it names the trip's newest invoice.
    Trip(TripId),
}

/// `booking.credit_applied`: confirms the credit of an invoice. If the invoice counted more as paid, the difference is due
/// again, and the lead's owner is notified. The event concerns the invoice's client, whoever the actor is.
pub(super) fn apply_credit_applied(
    state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>,
) -> Result<EventEffects, Refusal> {
    let payload = event.payload()?;
    let invoice =
        invoice_reference(&payload).and_then(|name| find(state, &name)).ok_or(Refusal::BookingNotFound)?.clone();
    let taken = payload.read("appliedRupees", money::amount).ok().flatten().ok_or(Refusal::InvalidPayload)?;
    let due = Money((invoice.credit_used.unwrap_or_default().0 - taken.0).max(0));
    let confirmed = Invoice {
        credit_applied: Some(taken),
        credit_state: CreditState::Confirmed,
        balance_due: due,
        updated_at: next_version(invoice.updated_at, ctx.now),
        ..invoice.clone()
    };
    if let Some(stored) = state.invoices.change(&invoice.booking_ref) {
        *stored = confirmed;
    }
    if due > Money(0) && due != invoice.balance_due {
        notify_owner(state, &invoice, due, ctx)?;
    }
    Ok(EventEffects {
        client_id: invoice.client_id,
        lead_id: Some(invoice.lead_id),
        trip_id: invoice.trip_id,
        discovery_id: None,
        warnings: Warnings::default(),
    })
}

/// `employee.credit_updated`: refreshes the credit shown for a client; the newest `asOf` wins. Times with different offsets are
/// compared as instants.
pub(super) fn apply_credit_updated(
    state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>,
) -> Result<EventEffects, Refusal> {
    let payload = event.payload()?;
    let mut warnings = Warnings::default();
    let client_id = contact::upsert(state, &event.identity(), &mut warnings, ctx);
    if let Some(sent) = parse_credit(client_id, &payload, &mut warnings, ctx.now) {
        refresh(state, sent);
    }
    Ok(EventEffects::for_client(client_id, warnings))
}

/// How a payload names its invoice. An invalid field names none; null and blank fields count as absent.
pub(crate) fn invoice_reference(payload: &Payload<'_>) -> Option<InvoiceReference> {
    let text = |field| payload.read(field, trimmed(usize::MAX));
    match text("bookingRef") {
        Ok(Some(booking_ref)) => return Some(InvoiceReference::Ref(booking_ref)),
        Ok(None) => {}
        Err(Rejected) => return None,
    }
    text("tripId").ok().flatten().and_then(|text| TripId::parse(&text)).map(InvoiceReference::Trip)
}

fn find<'s>(state: &'s TenantState, name: &InvoiceReference) -> Option<&'s Invoice> {
    match name {
        InvoiceReference::Ref(booking_ref) => state.invoices.get(booking_ref),
        InvoiceReference::Trip(trip) => {
            let of_trip = state.invoices.values().filter(|invoice| invoice.trip_id == Some(*trip));
            of_trip.max_by_key(|invoice| (invoice.created_at, &invoice.booking_ref))
        }
    }
}

/// Notifies the lead's owner, if it has one, that less credit was taken than counted as paid.
fn notify_owner(
    state: &mut TenantState, invoice: &Invoice, due: Money, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let lead = lead::get(state, invoice.lead_id)?;
    let Some(owner) = lead.owner.clone() else { return Ok(()) };
    let text = format!(
        "Enquiry {}: less credit was taken than counted as paid, {} is due",
        lead.enquiry_number,
        money::to_json(due)
    );
    routing::notify_member(state, owner, NotificationKind::CreditShortfall, invoice.lead_id, text, ctx);
    Ok(())
}

/// Parses a balance; `None` without a valid `asOf`. Other invalid fields are added to the warnings and left null.
fn parse_credit(
    client_id: ClientId, payload: &Payload<'_>, warnings: &mut Warnings, now: DateTime<Utc>,
) -> Option<Credit> {
    let mut fields = FieldReader { payload, kind: CREDIT_FIELD, warnings };
    let membership_id = fields.field("membershipId", trimmed(text::EXTERNAL_ID));
    let corporate_name = fields.field("corporateName", trimmed(text::NAME));
    let available_paise = fields.field("availablePaise", whole);
    let granted_paise = fields.field("grantedPaise", whole);
    let redeemable_percent = fields.field("redeemablePercent", percent);
    let as_of = fields.field("asOf", instant).filter(|as_of| *as_of <= now + AHEAD_MAX);
    if as_of.is_none() {
        fields.warnings.push_rejected(CREDIT_FIELD, "asOf");
    }
    let as_of = as_of?;
    Some(Credit { client_id, as_of, membership_id, corporate_name, available_paise, granted_paise, redeemable_percent })
}

fn refresh(state: &mut TenantState, sent: Credit) {
    let Some(stored) = state.credits.get(&sent.client_id) else {
        state.credits.insert(sent.client_id, sent);
        return;
    };
    if sent.as_of > stored.as_of
        && let Some(stored) = state.credits.change(&sent.client_id)
    {
        *stored = sent;
    }
}

fn percent(raw: &RawValue) -> FieldResult<f64> {
    amount(raw)?.filter(|percent| *percent <= 100.0).map(Some).ok_or(Rejected)
}

#[cfg(test)]
mod tests;
