//! `connectctl invoice`: bookings of an enquiry and what is owed for them.

use crate::arguments::{Limit, OfLead};
use crate::context::Context;
use crate::lookup;
use crate::output::Show;
use crate::rows::{self, FromRow};
use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::Row;

/// Amounts come as the text of exact decimals, which is a JSON number as it stands.
const NEWEST: &str = "-- invoices.newest
SELECT booking_ref, trim_scale(amount)::text AS amount, currency, trim_scale(credit_used)::text AS credit_used,
    trim_scale(credit_applied)::text AS credit_applied, credit_state, trim_scale(balance_due)::text AS balance_due
FROM invoices WHERE lead_id = $2 AND tenant_id IS NOT DISTINCT FROM $1::uuid ORDER BY created_at DESC, booking_ref DESC LIMIT $3";

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  connectctl invoice --tenant acme --lead 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"
)]
pub(crate) struct Wanted {
    #[command(flatten)]
    of: OfLead,
    #[command(flatten)]
    limit: Limit,
}

/// Amounts are in major units of the currency.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Invoice {
    booking_ref: String,
    amount: Option<Box<RawValue>>,
    currency: Option<String>,
    credit_used: Option<Box<RawValue>>,
    credit_applied: Option<Box<RawValue>>,
    credit_state: String,
    balance_due: Option<Box<RawValue>>,
}

impl FromRow for Invoice {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        Ok(Self {
            booking_ref: row.try_get("booking_ref")?,
            amount: rows::raw(row.try_get("amount")?)?,
            currency: row.try_get("currency")?,
            credit_used: rows::raw(row.try_get("credit_used")?)?,
            credit_applied: rows::raw(row.try_get("credit_applied")?)?,
            credit_state: row.try_get("credit_state")?,
            balance_due: rows::raw(row.try_get("balance_due")?)?,
        })
    }
}

impl Show for Invoice {
    const COLUMNS: &'static [&'static str] =
        &["Booking", "Amount", "Currency", "Credit used", "Credit applied", "Credit", "Balance due"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.booking_ref.clone()),
            rows::raw_cell(self.amount.as_deref()),
            self.currency.clone(),
            rows::raw_cell(self.credit_used.as_deref()),
            rows::raw_cell(self.credit_applied.as_deref()),
            Some(self.credit_state.clone()),
            rows::raw_cell(self.balance_due.as_deref()),
        ]
    }
}

pub(crate) async fn run(wanted: Wanted, context: &Context) -> anyhow::Result<()> {
    let (tenant, lead) = lookup::lead(context, &wanted.of).await?;
    let invoices: Vec<Invoice> = rows::newest(context, NEWEST, &[&tenant.0, &lead.0], &wanted.limit).await?;
    context.output.many(&invoices)
}
