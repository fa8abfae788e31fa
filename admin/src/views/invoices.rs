//! The bookings of a lead, with their amounts, credit and balance due.

use super::find_lead;
use crate::{AdminError, Newest, store};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::Client;

/// A booking. Amounts are in major units of the currency, as decimal numbers without loss of precision.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Invoice {
    /// Reference of the booking.
    pub booking_ref: String,
    /// The booking's amount.
    pub amount: Option<Box<RawValue>>,
    /// ISO 4217 code.
    pub currency: Option<String>,
    /// Corporate credit that counts as paid.
    pub credit_used: Option<Box<RawValue>>,
    /// Corporate credit that was confirmed.
    pub credit_applied: Option<Box<RawValue>>,
    /// `none`, `pending` or `confirmed`.
    pub credit_state: String,
    /// What is still to be paid.
    pub balance_due: Option<Box<RawValue>>,
}

/// The bookings of the lead with the id `id`.
pub async fn invoices(
    client: &Client,
    tenant: &str,
    id: &str,
    limit: u32,
) -> Result<Newest<Invoice>, AdminError> {
    let (tenant, lead) = find_lead(client, tenant, id).await?;
    store::invoices::newest(client, tenant, lead, limit).await
}
