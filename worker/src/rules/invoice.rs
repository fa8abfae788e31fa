//! Invoices: one for a booking reference, made when the booking is confirmed (D12), marked when it is cancelled (D25).

use super::{Cause, Context, InternalError, lead, outbound};
use crate::state::{CreditState, Invoice, Money, TenantState};
use common::clock::next_version;
use common::model::LeadId;

/// What is known of a confirmed booking.
#[derive(Clone, Debug)]
pub struct Booking {
    /// Identifies the booking within the agency; subscribers dedupe on it.
    pub booking_ref: String,
    /// Booking amount.
    pub amount: Option<Money>,
    /// ISO 4217 code.
    pub currency: Option<String>,
    /// Corporate credit counted as paid.
    pub credit_used: Option<Money>,
}

/// What became of a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// The invoice was made and `booking.confirmed` emitted.
    New,
    /// This enquiry's invoice was there; nothing happened.
    Before,
    /// Another enquiry has an invoice with that reference; nothing happened.
    OfAnother(LeadId),
}

/// Makes the booking's invoice and emits `booking.confirmed`, unless there is an invoice with that reference.
/// Credit that it counts as paid awaits `booking.credit_applied`.
pub fn confirm(
    state: &mut TenantState,
    lead_id: LeadId,
    booking: Booking,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<Confirmed, InternalError> {
    if let Some(invoice) = state.invoices.get(&booking.booking_ref) {
        let own = invoice.lead_id == lead_id;
        return Ok(if own { Confirmed::Before } else { Confirmed::OfAnother(invoice.lead_id) });
    }
    let pending = booking.credit_used.is_some_and(|credit| credit > Money(0));
    let invoice = Invoice {
        booking_ref: booking.booking_ref,
        lead_id,
        trip_id: lead::trip_id(state, lead_id),
        client_id: lead::get(state, lead_id)?.client_id,
        amount: booking.amount,
        currency: booking.currency,
        credit_used: booking.credit_used,
        credit_applied: None,
        credit_state: if pending { CreditState::Pending } else { CreditState::None },
        balance_due: Money(0),
        cancelled_at: None,
        created_at: ctx.now,
        updated_at: ctx.now,
    };
    outbound::booking_confirmed(state, &invoice, cause, ctx)?;
    state.invoices.insert(invoice.booking_ref.clone(), invoice);
    Ok(Confirmed::New)
}

/// Cancels a booking that is known to be there, however it was made, and emits `booking.cancelled`. Nothing happens when
/// it is cancelled already. Its enquiry's stage stays (D25).
pub fn cancel(
    state: &mut TenantState,
    booking_ref: &str,
    reason: Option<&str>,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let unknown = InternalError("a booking that is cancelled is there");
    let booking_ref = booking_ref.to_owned();
    if state.invoices.get(&booking_ref).ok_or(unknown)?.cancelled_at.is_some() {
        return Ok(());
    }
    let invoice = state.invoices.change(&booking_ref).ok_or(unknown)?;
    invoice.cancelled_at = Some(ctx.now);
    invoice.updated_at = next_version(invoice.updated_at, ctx.now);
    let invoice = invoice.clone();
    outbound::booking_cancelled(state, &invoice, reason, cause, ctx)
}
