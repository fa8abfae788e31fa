//! Look-ups by any id, in all tenants that are given.

use super::{all, one, read_row};
use crate::Result;
use chrono::{DateTime, Utc};
use common::model::TenantId;
use std::ops::Range;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

/// An event of the ledger.
pub(crate) struct AppliedEvent {
    pub(crate) tenant: TenantId,
    pub(crate) id: String,
    pub(crate) event_type: String,
    pub(crate) key: String,
    pub(crate) request: Uuid,
    pub(crate) applied_at: DateTime<Utc>,
    pub(crate) client: Option<Uuid>,
    pub(crate) lead: Option<Uuid>,
    pub(crate) warnings: Vec<String>,
}

/// An event of the outbox.
pub(crate) struct OutboundEvent {
    pub(crate) tenant: TenantId,
    pub(crate) id: Uuid,
    pub(crate) event_type: String,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) request: Option<Uuid>,
}

common::statements! {
    const APPLIED = "-- found.applied
    SELECT l.tenant_id, l.event_id, l.event_type, l.key_prefix, l.request_id, l.applied_at, l.client_id, l.lead_id, l.warnings
    FROM unnest($1::uuid[]) AS t (tenant_id)
    CROSS JOIN LATERAL (
        SELECT * FROM event_ledger l WHERE l.tenant_id = t.tenant_id AND l.event_id = $2 LIMIT 1
    ) l";

    /// A request's id is a UUIDv7 of the time of its arrival, so that only events that were applied soon after it are read.
    const APPLIED_OF_REQUEST = "-- found.applied_of_request
    SELECT tenant_id, event_id, event_type, key_prefix, request_id, applied_at, client_id, lead_id, warnings
    FROM event_ledger
    WHERE applied_at >= $2 AND applied_at < $3 AND request_id = $4 AND tenant_id::text = ANY($1::uuid[]::text[])
    ORDER BY applied_at LIMIT 100";

    /// The first applied events of a trace that is not named like their request. Callers choose traces: those of other tenants
    /// with the same id are not read.
    const APPLIED_OF_TRACE = "-- found.applied_of_trace
    SELECT l.tenant_id, l.event_id, l.event_type, l.key_prefix, l.request_id, l.applied_at, l.client_id, l.lead_id, l.warnings
    FROM unnest($1::uuid[]) AS t (tenant_id)
    CROSS JOIN LATERAL (
        SELECT * FROM event_ledger l WHERE l.trace_id = $2 AND l.tenant_id = t.tenant_id ORDER BY l.applied_at LIMIT 100
    ) l
    ORDER BY l.applied_at LIMIT 100";

    /// The newest events of a client, or of one of its leads. Its timeline has an entry for each.
    const APPLIED_OF_CLIENT = "-- found.applied_of_client
    SELECT l.tenant_id, l.event_id, l.event_type, l.key_prefix, l.request_id, l.applied_at, l.client_id, l.lead_id, l.warnings
    FROM (
        SELECT event_id FROM timeline WHERE tenant_id = $1 AND client_id = $2 ORDER BY entry_id DESC LIMIT 100
    ) t
    CROSS JOIN LATERAL (
        SELECT * FROM event_ledger l WHERE l.tenant_id = $1 AND l.event_id = t.event_id LIMIT 1
    ) l
    WHERE $3::uuid IS NULL OR l.lead_id = $3
    LIMIT 20";

    const OUTBOUND = "-- found.outbound
    SELECT o.tenant_id, o.event_id, o.event_type, o.created_at, o.request_id
    FROM unnest($1::uuid[]) AS t (tenant_id)
    CROSS JOIN LATERAL (
        SELECT * FROM outbox o WHERE o.tenant_id = t.tenant_id AND o.event_id = $2 LIMIT 1
    ) o";

    /// Outbound events of a request that were created at about the time at which an event of it was applied, and are about its lead,
    /// as each one is that an event causes. The other events of the request may be about other leads.
    const CAUSED = "-- found.caused
    SELECT tenant_id, event_id, event_type, created_at, request_id
    FROM outbox
    WHERE tenant_id = $1 AND event_id >= $2 AND event_id < $3
        AND envelope #>> '{payload,leadId}' = $4 AND request_id = $5
    ORDER BY event_id LIMIT 100";

    const LEAD = "-- found.lead
    SELECT l.tenant_id, l.lead_id, l.client_id, l.enquiry_number, l.stage, l.created_at
    FROM unnest($1::uuid[]) AS t (tenant_id)
    CROSS JOIN LATERAL (SELECT * FROM leads l WHERE l.tenant_id = t.tenant_id AND l.lead_id = $2 LIMIT 1) l";

    /// By the number, or the newest ones by the caller's own id.
    const LEAD_BY_NUMBER = "-- found.lead_by_number
    SELECT l.tenant_id, l.lead_id, l.client_id, l.enquiry_number, l.stage, l.created_at
    FROM unnest($1::uuid[]) AS t (tenant_id)
    CROSS JOIN LATERAL (
        (SELECT * FROM leads l WHERE l.enquiry_number = $2 AND l.tenant_id::text = t.tenant_id::text LIMIT 1)
        UNION ALL
        (SELECT * FROM leads l WHERE l.external_id = $2 AND l.tenant_id::text = t.tenant_id::text
         ORDER BY l.lead_id DESC LIMIT 5)
    ) l";

    /// The minutes of which this request is the latest one with a failed event, with its error.
    const FAILED = "-- found.failed
    SELECT tenant_id, minute, split_part(cause, ':', 2) AS error FROM failure_minutes
    WHERE tenant_id = ANY($1::uuid[]) AND cause >= 'event:' AND cause < 'event;' AND last_error LIKE '%' || $2::text";

    const CLIENT = "-- found.client
    SELECT c.tenant_id, c.client_id, c.created_at
    FROM unnest($1::uuid[]) AS t (tenant_id)
    CROSS JOIN LATERAL (SELECT * FROM clients c WHERE c.tenant_id = t.tenant_id AND c.client_id = $2 LIMIT 1) c";

    const CLIENT_BY_EMAIL = "-- found.client_by_email
    SELECT c.tenant_id, c.client_id, c.created_at
    FROM unnest($1::uuid[]) AS t (tenant_id)
    CROSS JOIN LATERAL (
        SELECT * FROM clients c WHERE c.email_key = $2 AND c.tenant_id::text = t.tenant_id::text LIMIT 1
    ) c";

    const BOOKING = "-- found.booking
    SELECT i.tenant_id, i.lead_id, i.client_id, i.created_at, i.cancelled_at
    FROM unnest($1::uuid[]) AS t (tenant_id)
    CROSS JOIN LATERAL (
        SELECT * FROM invoices i WHERE i.tenant_id = t.tenant_id AND i.booking_ref = $2 LIMIT 1
    ) i";
}

pub(crate) struct FoundLead {
    pub(crate) tenant: TenantId,
    pub(crate) id: Uuid,
    pub(crate) client: Uuid,
    pub(crate) number: String,
    pub(crate) stage: String,
    pub(crate) created_at: DateTime<Utc>,
}

pub(crate) struct FoundClient {
    pub(crate) tenant: TenantId,
    pub(crate) id: Uuid,
    pub(crate) created_at: DateTime<Utc>,
}

pub(crate) struct FoundBooking {
    pub(crate) tenant: TenantId,
    pub(crate) lead: Uuid,
    pub(crate) client: Uuid,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) cancelled_at: Option<DateTime<Utc>>,
}

/// The events with this id.
pub(crate) async fn applied(client: &Client, tenants: &[Uuid], event: &str) -> Result<Vec<AppliedEvent>> {
    all(client, APPLIED, &[&tenants, &event], applied_event).await
}

/// The events of a request that were applied in a range of time.
pub(crate) async fn applied_of_request(
    client: &Client, tenants: &[Uuid], times: &Range<DateTime<Utc>>, request: Uuid,
) -> Result<Vec<AppliedEvent>> {
    let parameters: super::Parameters<'_> = &[&tenants, &times.start, &times.end, &request];
    all(client, APPLIED_OF_REQUEST, parameters, applied_event).await
}

/// The events of requests that a caller has sent with this trace id.
pub(crate) async fn applied_of_trace(client: &Client, tenants: &[Uuid], trace: Uuid) -> Result<Vec<AppliedEvent>> {
    all(client, APPLIED_OF_TRACE, &[&tenants, &trace], applied_event).await
}

/// The newest events of a client, of one of its leads if one is given.
pub(crate) async fn applied_of_client(
    client: &Client, tenant: TenantId, of: Uuid, lead: Option<Uuid>,
) -> Result<Vec<AppliedEvent>> {
    all(client, APPLIED_OF_CLIENT, &[&tenant.0, &of, &lead], applied_event).await
}

/// The outbound events with this id.
pub(crate) async fn outbound(client: &Client, tenants: &[Uuid], event: Uuid) -> Result<Vec<OutboundEvent>> {
    all(client, OUTBOUND, &[&tenants, &event], outbound_event).await
}

/// The outbound events of a range of ids that an event may have caused.
pub(crate) async fn caused(client: &Client, cause: &AppliedEvent, ids: &Range<Uuid>) -> Result<Vec<OutboundEvent>> {
    let lead = cause.lead.map(|lead| lead.to_string());
    let parameters: super::Parameters<'_> = &[&cause.tenant.0, &ids.start, &ids.end, &lead, &cause.request];
    all(client, CAUSED, parameters, outbound_event).await
}

pub(crate) async fn lead(client: &Client, tenants: &[Uuid], id: Uuid) -> Result<Option<FoundLead>> {
    Ok(all(client, LEAD, &[&tenants, &id], found_lead).await?.into_iter().next())
}

/// The tenant, minute and error of failed events of a request that is the latest one with that error.
pub(crate) async fn failed(
    client: &Client, tenants: &[Uuid], request: Uuid,
) -> Result<Vec<(TenantId, DateTime<Utc>, String)>> {
    let read = |row: &Row| Ok((TenantId(row.try_get("tenant_id")?), row.try_get("minute")?, row.try_get("error")?));
    all(client, FAILED, &[&tenants, &request.to_string()], read).await
}

pub(crate) async fn leads_by_number(client: &Client, tenants: &[Uuid], number: &str) -> Result<Vec<FoundLead>> {
    all(client, LEAD_BY_NUMBER, &[&tenants, &number], found_lead).await
}

pub(crate) async fn client(client: &Client, tenants: &[Uuid], id: Uuid) -> Result<Option<FoundClient>> {
    one(client, CLIENT, &[&tenants, &id], found_client).await
}

/// The clients with this email, in lower case.
pub(crate) async fn clients_by_email(client: &Client, tenants: &[Uuid], email: &str) -> Result<Vec<FoundClient>> {
    all(client, CLIENT_BY_EMAIL, &[&tenants, &email], found_client).await
}

/// The bookings with this reference.
pub(crate) async fn bookings(client: &Client, tenants: &[Uuid], reference: &str) -> Result<Vec<FoundBooking>> {
    let read = |row: &Row| {
        Ok(read_row!(row => FoundBooking {
            tenant = "tenant_id" as TenantId, lead = "lead_id", client = "client_id", created_at,
            cancelled_at
        }))
    };
    all(client, BOOKING, &[&tenants, &reference], read).await
}

fn applied_event(row: &Row) -> Result<AppliedEvent> {
    Ok(read_row!(row => AppliedEvent {
        tenant = "tenant_id" as TenantId, id = "event_id", event_type, key = "key_prefix",
        request = "request_id", applied_at, client = "client_id", lead = "lead_id", warnings
    }))
}

fn outbound_event(row: &Row) -> Result<OutboundEvent> {
    Ok(read_row!(row => OutboundEvent {
        tenant = "tenant_id" as TenantId, id = "event_id", event_type, created_at, request = "request_id"
    }))
}

fn found_lead(row: &Row) -> Result<FoundLead> {
    Ok(read_row!(row => FoundLead {
        tenant = "tenant_id" as TenantId, id = "lead_id", client = "client_id", number = "enquiry_number",
        stage, created_at
    }))
}

fn found_client(row: &Row) -> Result<FoundClient> {
    Ok(read_row!(row => FoundClient { tenant = "tenant_id" as TenantId, id = "client_id", created_at }))
}
