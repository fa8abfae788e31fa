//! What the CRM lists of a client or lead, newest first: timelines, inbox threads, bookings, trip discovery records, notifications.

use super::{newest, raw_json, read_row};
use crate::{Newest, Result};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::{ClientId, DiscoveryId, LeadId, TenantId};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

/// An accepted event about a client.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// As the partner sent it.
    pub event_id: String,
    /// Such as `contact.identified`.
    pub event_type: String,
    /// When it happened, as the partner said.
    #[serde(serialize_with = "clock::serialize")]
    pub occurred_at: DateTime<Utc>,
    /// Name of the system that emitted it: the origin of its key.
    pub origin: String,
    /// The event's payload, as sent.
    pub payload: Option<Box<RawValue>>,
}

/// A message of a lead's inbox thread.
#[derive(Clone, Debug, Serialize)]
pub struct InboxMessage {
    /// When it was added.
    #[serde(serialize_with = "clock::serialize")]
    pub at: DateTime<Utc>,
    /// What it is about, such as `message`.
    pub kind: String,
    /// Its text; null for a message that lists changes only.
    pub text: Option<String>,
    /// The changes that it reports.
    pub changes: Option<Box<RawValue>>,
}

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

/// A trip discovery record.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Discovery {
    /// UUIDv7 (D18).
    pub discovery_id: DiscoveryId,
    /// The record, as stored.
    pub discovery: Option<Box<RawValue>>,
    /// The profile of the traveler, repeated in each record; null until it is known.
    pub profile: Option<Box<RawValue>>,
    /// The profile's summary; null until it is known.
    pub essence: Option<String>,
}

/// A notification of a member.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// When it was created.
    #[serde(serialize_with = "clock::serialize")]
    pub at: DateTime<Utc>,
    /// Email of the member.
    pub to: String,
    /// Such as `lead_assigned`.
    pub kind: String,
    /// The lead that it is about.
    pub lead_id: Option<LeadId>,
    /// The text that the member sees.
    pub text: String,
}

common::statements! {
    const TIMELINE = "-- timeline.newest
    SELECT event_id, event_type, occurred_at, origin, payload::text AS payload
    FROM timeline WHERE tenant_id = $1 AND client_id = $2 ORDER BY entry_id DESC LIMIT (SELECT $3::bigint)";

    const INBOX = "-- inbox_messages.newest
    SELECT at, kind, text, changes::text AS changes
    FROM inbox_messages WHERE tenant_id = $1 AND lead_id = $2 ORDER BY message_id DESC LIMIT (SELECT $3::bigint)";

    /// Amounts are selected as decimal text, which is a valid JSON number without loss of precision.
    const INVOICES = "-- invoices.newest
    SELECT booking_ref, trim_scale(amount)::text AS amount, currency, trim_scale(credit_used)::text AS credit_used,
        trim_scale(credit_applied)::text AS credit_applied, credit_state, trim_scale(balance_due)::text AS balance_due
    FROM invoices WHERE lead_id = $2 AND tenant_id IS NOT DISTINCT FROM $1::uuid ORDER BY created_at DESC, booking_ref DESC LIMIT $3";

    const DISCOVERIES = "-- discoveries.newest
    SELECT d.discovery_id, d.discovery::text AS discovery, p.profile::text AS profile, p.essence
    FROM discoveries d LEFT JOIN traveller_profiles p USING (tenant_id, client_id)
    WHERE d.client_id = $2 AND d.tenant_id IS NOT DISTINCT FROM $1::uuid ORDER BY d.discovery_id DESC LIMIT $3";

    const NOTIFICATIONS = "-- notifications.newest
    SELECT at, recipient, kind, lead_id, text
    FROM notifications WHERE tenant_id = $1 ORDER BY notification_id DESC LIMIT (SELECT $2::bigint)";
}

pub(crate) async fn timeline(
    client: &Client, tenant: TenantId, id: ClientId, limit: u32,
) -> Result<Newest<TimelineEntry>> {
    newest(client, TIMELINE, &[&tenant.0, &id.0], limit, entry).await
}

fn entry(row: &Row) -> Result<TimelineEntry> {
    Ok(read_row!(row => TimelineEntry {
        event_id, event_type, occurred_at, origin, payload: raw_json(row.try_get("payload")?)?
    }))
}

pub(crate) async fn inbox(client: &Client, tenant: TenantId, lead: LeadId, limit: u32) -> Result<Newest<InboxMessage>> {
    newest(client, INBOX, &[&tenant.0, &lead.0], limit, message).await
}

fn message(row: &Row) -> Result<InboxMessage> {
    Ok(read_row!(row => InboxMessage { at, kind, text, changes: raw_json(row.try_get("changes")?)? }))
}

pub(crate) async fn invoices(client: &Client, tenant: TenantId, lead: LeadId, limit: u32) -> Result<Newest<Invoice>> {
    newest(client, INVOICES, &[&tenant.0, &lead.0], limit, invoice).await
}

fn invoice(row: &Row) -> Result<Invoice> {
    Ok(read_row!(row => Invoice {
        booking_ref, amount: raw_json(row.try_get("amount")?)?, currency,
        credit_used: raw_json(row.try_get("credit_used")?)?,
        credit_applied: raw_json(row.try_get("credit_applied")?)?, credit_state,
        balance_due: raw_json(row.try_get("balance_due")?)?
    }))
}

pub(crate) async fn discoveries(
    client: &Client, tenant: TenantId, id: ClientId, limit: u32,
) -> Result<Newest<Discovery>> {
    newest(client, DISCOVERIES, &[&tenant.0, &id.0], limit, discovery).await
}

fn discovery(row: &Row) -> Result<Discovery> {
    Ok(Discovery {
        discovery_id: DiscoveryId(row.try_get("discovery_id")?),
        discovery: raw_json(row.try_get("discovery")?)?,
        profile: raw_json(row.try_get("profile")?)?,
        essence: row.try_get("essence")?,
    })
}

pub(crate) async fn notifications(client: &Client, tenant: TenantId, limit: u32) -> Result<Newest<Notification>> {
    newest(client, NOTIFICATIONS, &[&tenant.0], limit, notification).await
}

fn notification(row: &Row) -> Result<Notification> {
    Ok(read_row!(row => Notification {
        at, to = "recipient", kind, lead_id: row.try_get::<_, Option<Uuid>>("lead_id")?.map(LeadId), text
    }))
}
