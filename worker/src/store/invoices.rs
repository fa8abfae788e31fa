//! Invoices: bookings and what is owed for them. Amounts travel as whole cents.

use super::{Owned, States, Wanted, query, unreadable, write_rows};
use crate::state::{CreditState, Invoice, Money, RowState};
use common::db::TxError;
use common::model::{ClientId, LeadId, TenantId, TripId};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

// Locked, because credit events find an invoice without locking its client. Found first, as clients are.
pub(super) const LOAD: &str = "
    -- invoices.load
    WITH found (tenant_id, booking_ref) AS MATERIALIZED (
        SELECT * FROM unnest($1::uuid[], $2::text[])
        UNION
        SELECT w.tenant_id, i.booking_ref FROM unnest($3::uuid[], $4::uuid[]) AS w (tenant_id, trip_id),
            LATERAL (SELECT booking_ref FROM invoices i WHERE i.tenant_id = w.tenant_id AND i.trip_id = w.trip_id
                     ORDER BY created_at DESC, booking_ref DESC LIMIT 1) i
    )
    SELECT tenant_id, booking_ref, lead_id, trip_id, client_id, (amount * 100)::bigint AS amount, currency,
           (credit_used * 100)::bigint AS credit_used, (credit_applied * 100)::bigint AS credit_applied, credit_state,
           (balance_due * 100)::bigint AS balance_due, cancelled_at, created_at, updated_at
    FROM invoices JOIN found USING (tenant_id, booking_ref)
    ORDER BY tenant_id, booking_ref
    FOR NO KEY UPDATE OF invoices";

pub(super) const CLIENT: &str = "
    -- invoices.client
    SELECT client_id FROM invoices WHERE tenant_id = $1 AND booking_ref = $2";

pub(super) const INSERT: &str = "
    -- invoices.insert
    INSERT INTO invoices (tenant_id, booking_ref, lead_id, trip_id, client_id, amount, currency, credit_used,
                          credit_applied, credit_state, balance_due, cancelled_at, created_at, updated_at)
    SELECT tenant_id, booking_ref, lead_id, trip_id, client_id, amount / 100.0, currency, credit_used / 100.0,
           credit_applied / 100.0, credit_state, balance_due / 100.0, cancelled_at, created_at, updated_at
    FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::uuid[], $6::bigint[], $7::text[], $8::bigint[],
                $9::bigint[], $10::text[], $11::bigint[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[])
         AS new (tenant_id, booking_ref, lead_id, trip_id, client_id, amount, currency, credit_used, credit_applied,
                 credit_state, balance_due, cancelled_at, created_at, updated_at)";

pub(super) const UPDATE: &str = "
    -- invoices.update
    UPDATE invoices i
    SET credit_applied = n.credit_applied / 100.0, credit_state = n.credit_state, balance_due = n.balance_due / 100.0,
        cancelled_at = n.cancelled_at, updated_at = n.updated_at
    FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::timestamptz[], $7::timestamptz[])
         AS n (tenant_id, booking_ref, credit_applied, credit_state, balance_due, cancelled_at, updated_at)
    WHERE i.tenant_id = n.tenant_id AND i.booking_ref = n.booking_ref";

/// Whose booking it is. Whoever changes a booking for its client's sake locks the client first, as all do; an invoice's
/// client never changes.
pub async fn client_of(
    tx: &Transaction<'_>,
    tenant: TenantId,
    booking_ref: &str,
) -> Result<Option<ClientId>, TxError> {
    let rows = query(tx, CLIENT, &[&tenant.0, &booking_ref]).await?;
    Ok(rows.first().map(|row| ClientId(row.get(0))))
}

/// Loads and locks the invoices that the unit names.
pub(super) async fn load(tx: &Transaction<'_>, wanted: &Wanted) -> Result<Vec<Row>, TxError> {
    if wanted.booking_refs.is_empty() && wanted.booking_trips.is_empty() {
        return Ok(Vec::new());
    }
    let (ref_tenants, refs) = wanted.booking_refs.columns();
    let (trip_tenants, trips) = wanted.booking_trips.columns();
    query(tx, LOAD, &[&ref_tenants, &refs, &trip_tenants, &trips]).await
}

/// Takes in what [`load`] found.
pub(super) fn fill(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let Some(state) = states.get_mut(&TenantId(row.get("tenant_id"))) else { continue };
        let credit_state = match row.get("credit_state") {
            "none" => CreditState::None,
            "pending" => CreditState::Pending,
            "confirmed" => CreditState::Confirmed,
            _ => return Err(unreadable("credit state")),
        };
        let invoice = Invoice {
            booking_ref: row.get("booking_ref"),
            lead_id: LeadId(row.get("lead_id")),
            trip_id: row.get::<_, Option<_>>("trip_id").map(TripId),
            client_id: ClientId(row.get("client_id")),
            amount: row.get::<_, Option<_>>("amount").map(Money),
            currency: row.get("currency"),
            credit_used: row.get::<_, Option<_>>("credit_used").map(Money),
            credit_applied: row.get::<_, Option<_>>("credit_applied").map(Money),
            credit_state,
            balance_due: Money(row.get("balance_due")),
            cancelled_at: row.get("cancelled_at"),
            created_at: row.get("created_at"),
            updated_at: row.get("updated_at"),
        };
        state.invoices.load(invoice.booking_ref.clone(), invoice);
    }
    Ok(())
}

fn in_state(states: &States, wanted: RowState) -> Vec<Owned<'_, Invoice>> {
    super::rows(states, |state| state.invoices.in_state(wanted))
}

/// Writes new invoices.
pub(super) async fn insert(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    write_rows!(tx, INSERT, in_state(states, RowState::New), |invoice| [
        invoice.tenant,
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

/// Writes changed invoices.
pub(super) async fn update(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    write_rows!(tx, UPDATE, in_state(states, RowState::Changed), |invoice| [
        invoice.tenant,
        invoice.booking_ref.as_str(),
        invoice.credit_applied.map(|money| money.0),
        invoice.credit_state.as_str(),
        invoice.balance_due.0,
        invoice.cancelled_at,
        invoice.updated_at,
    ])
}
