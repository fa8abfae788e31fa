//! Invoices of bookings. Amounts are bound as whole cents.

use super::{Columns, LoadRequest, States, rows, unreadable, write_rows};
use crate::state::{CreditState, Invoice, Money, RowState};
use common::db::{Query, TxError};
use common::model::{ClientId, LeadId, TenantId, TripId};
use tokio_postgres::Row;

common::statements! {
    // Locked, because credit events change an invoice without locking its client. Found before the lock, as clients are.
    const LOAD = "
    -- invoices.load
    WITH found (tenant_id, booking_ref) AS MATERIALIZED (
        SELECT * FROM unnest($1::uuid[], $2::text[])
        UNION
        SELECT w.tenant_id, i.booking_ref FROM unnest($3::uuid[], $4::uuid[]) AS w (tenant_id, trip_id)
            CROSS JOIN LATERAL (SELECT booking_ref FROM invoices
                                WHERE trip_id = w.trip_id AND tenant_id IS NOT DISTINCT FROM w.tenant_id
                                ORDER BY created_at DESC, booking_ref DESC LIMIT 1) AS i
    )
    SELECT i.tenant_id, i.booking_ref, i.lead_id, i.trip_id, i.client_id, (i.amount * 100)::bigint, i.currency,
           (i.credit_used * 100)::bigint, (i.credit_applied * 100)::bigint, i.credit_state,
           (i.balance_due * 100)::bigint, i.cancelled_at, i.created_at, i.updated_at
    FROM invoices i JOIN found USING (tenant_id, booking_ref)
    ORDER BY i.tenant_id, i.booking_ref
    FOR NO KEY UPDATE OF i";

    const INSERT = "
    -- invoices.insert
    INSERT INTO invoices (tenant_id, booking_ref, lead_id, trip_id, client_id, amount, currency, credit_used,
                          credit_applied, credit_state, balance_due, cancelled_at, created_at, updated_at)
    SELECT tenant_id, booking_ref, lead_id, trip_id, client_id, amount / 100.0, currency, credit_used / 100.0,
           credit_applied / 100.0, credit_state, balance_due / 100.0, cancelled_at, created_at, updated_at
    FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::uuid[], $6::bigint[], $7::text[], $8::bigint[],
                $9::bigint[], $10::text[], $11::bigint[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[])
         AS new (tenant_id, booking_ref, lead_id, trip_id, client_id, amount, currency, credit_used, credit_applied,
                 credit_state, balance_due, cancelled_at, created_at, updated_at)";

    const UPDATE = "
    -- invoices.update
    UPDATE invoices i
    SET credit_applied = n.credit_applied / 100.0, credit_state = n.credit_state, balance_due = n.balance_due / 100.0,
        cancelled_at = n.cancelled_at, updated_at = n.updated_at
    FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::timestamptz[], $7::timestamptz[])
         AS n (tenant_id, booking_ref, credit_applied, credit_state, balance_due, cancelled_at, updated_at)
    WHERE i.tenant_id = n.tenant_id AND i.booking_ref = n.booking_ref";
}

/// Loads and locks the invoices that the unit names.
pub(super) fn load(request: &LoadRequest) -> Option<Query<'static>> {
    if request.booking_refs.is_empty() && request.invoices_by_trip.is_empty() {
        return None;
    }
    let (ref_tenants, refs) = request.booking_refs.columns();
    let (trip_tenants, trips) = request.invoices_by_trip.columns();
    Some(Query::new(LOAD).bind(ref_tenants).bind(refs).bind(trip_tenants).bind(trips))
}

/// Adds the rows of [`load`] to the states.
pub(super) fn fill(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let mut columns = Columns::of(row);
        let Some(state) = states.get_mut(&TenantId(columns.take())) else { continue };
        let invoice = Invoice {
            booking_ref: columns.take(),
            lead_id: LeadId(columns.take()),
            trip_id: columns.take::<Option<_>>().map(TripId),
            client_id: ClientId(columns.take()),
            amount: columns.take::<Option<_>>().map(Money),
            currency: columns.take(),
            credit_used: columns.take::<Option<_>>().map(Money),
            credit_applied: columns.take::<Option<_>>().map(Money),
            credit_state: credit_state(columns.take())?,
            balance_due: Money(columns.take()),
            cancelled_at: columns.take(),
            created_at: columns.take(),
            updated_at: columns.take(),
        };
        state.invoices.load(invoice.booking_ref.clone(), invoice);
    }
    Ok(())
}

fn credit_state(stored: &str) -> Result<CreditState, TxError> {
    match stored {
        "none" => Ok(CreditState::None),
        "pending" => Ok(CreditState::Pending),
        "confirmed" => Ok(CreditState::Confirmed),
        _ => Err(unreadable("credit state")),
    }
}

/// Inserts new invoices. Their leads must be inserted before.
pub(super) fn insert(states: &States) -> Option<Query<'_>> {
    let new = rows(states, |state| state.invoices.in_state(RowState::New));
    write_rows!(INSERT, new, |tenant, invoice| [
        tenant,
        invoice.booking_ref.as_str(),
        invoice.lead_id.0,
        invoice.trip_id.map(|id| id.0),
        invoice.client_id.0,
        invoice.amount.map(|money| money.0),
        invoice.currency.as_deref(),
        invoice.credit_used.map(|money| money.0),
        invoice.credit_applied.map(|money| money.0),
        invoice.credit_state.as_str(),
        invoice.balance_due.0,
        invoice.cancelled_at,
        invoice.created_at,
        invoice.updated_at,
    ])
}

/// Writes changed invoices, which are locked.
pub(super) fn update(states: &States) -> Option<Query<'_>> {
    let changed = rows(states, |state| state.invoices.in_state(RowState::Changed));
    write_rows!(UPDATE, changed, |tenant, invoice| [
        tenant,
        invoice.booking_ref.as_str(),
        invoice.credit_applied.map(|money| money.0),
        invoice.credit_state.as_str(),
        invoice.balance_due.0,
        invoice.cancelled_at,
        invoice.updated_at,
    ])
}
