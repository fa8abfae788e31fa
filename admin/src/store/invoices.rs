//! Bookings of leads.

use super::raw_json;
use crate::views::Invoice;
use crate::{AdminError, Newest};
use common::model::{LeadId, TenantId};
use tokio_postgres::{Client, Row};

common::statements! {
    /// Amounts are selected as decimal text, which is a valid JSON number without loss of precision.
    const NEWEST = "-- invoices.newest
    SELECT booking_ref, trim_scale(amount)::text AS amount, currency, trim_scale(credit_used)::text AS credit_used,
        trim_scale(credit_applied)::text AS credit_applied, credit_state, trim_scale(balance_due)::text AS balance_due
    FROM invoices WHERE lead_id = $2 AND tenant_id IS NOT DISTINCT FROM $1::uuid ORDER BY created_at DESC, booking_ref DESC LIMIT $3";
}

pub(crate) async fn newest(
    client: &Client,
    tenant: TenantId,
    lead: LeadId,
    limit: u32,
) -> Result<Newest<Invoice>, AdminError> {
    super::newest(client, NEWEST, &[&tenant.0, &lead.0], limit, invoice).await
}

fn invoice(row: &Row) -> Result<Invoice, AdminError> {
    Ok(Invoice {
        booking_ref: row.try_get("booking_ref")?,
        amount: raw_json(row.try_get("amount")?)?,
        currency: row.try_get("currency")?,
        credit_used: raw_json(row.try_get("credit_used")?)?,
        credit_applied: raw_json(row.try_get("credit_applied")?)?,
        credit_state: row.try_get("credit_state")?,
        balance_due: raw_json(row.try_get("balance_due")?)?,
    })
}
