//! Invoices: one for each booking reference. It is made when the booking is confirmed (D12), and marked when the booking
//! is cancelled (D25).

use super::{Cause, Context, InternalError, lead, outbound};
use crate::state::{CreditState, Invoice, Money, TenantState};
use common::model::LeadId;
use common::version::next_version;

/// A booking to confirm.
#[derive(Clone, Debug)]
pub(crate) struct Booking {
    /// Identifies the booking within the tenant; subscribers detect duplicates by it.
    pub(crate) booking_ref: String,
    pub(crate) amount: Option<Money>,
    /// ISO 4217 code of both amounts.
    pub(crate) currency: Option<String>,
    /// Corporate credit counted as paid.
    pub(crate) credit_used: Option<Money>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmation {
    /// The invoice was made and `booking.confirmed` emitted.
    New,
    /// The lead had this invoice already; nothing changed.
    Repeated,
    /// Another lead has an invoice with this reference; nothing changed.
    OfOtherLead(LeadId),
}

/// Makes the booking's invoice and emits `booking.confirmed`, unless an invoice with that reference exists. Credit that
/// the invoice counts as paid is pending until `booking.credit_applied`.
pub(crate) fn confirm(
    state: &mut TenantState, lead_id: LeadId, booking: Booking, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<Confirmation, InternalError> {
    if let Some(invoice) = state.invoices.get(&booking.booking_ref) {
        let own = invoice.lead_id == lead_id;
        return Ok(if own { Confirmation::Repeated } else { Confirmation::OfOtherLead(invoice.lead_id) });
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
    lead::change(state, lead_id, ctx.now, |_| {})?;
    outbound::booking_confirmed(state, &invoice, cause, ctx)?;
    state.invoices.insert(invoice.booking_ref.clone(), invoice);
    Ok(Confirmation::New)
}

/// Cancels a booking, whose invoice must be loaded, and emits `booking.cancelled`. Does nothing if it is cancelled
/// already. The stage of its lead does not change (D25).
pub(crate) fn cancel(
    state: &mut TenantState, booking_ref: &str, reason: Option<&str>, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let unknown = InternalError("the state holds a booking that is cancelled");
    let booking_ref = booking_ref.to_owned();
    if state.invoices.get(&booking_ref).ok_or(unknown)?.cancelled_at.is_some() {
        return Ok(());
    }
    let invoice = state.invoices.change(&booking_ref).ok_or(unknown)?;
    invoice.cancelled_at = Some(ctx.now);
    invoice.updated_at = next_version(invoice.updated_at, ctx.now);
    let invoice = invoice.clone();
    lead::change(state, invoice.lead_id, ctx.now, |_| {})?;
    outbound::booking_cancelled(state, &invoice, reason, cause, ctx)
}
