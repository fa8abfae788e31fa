//! Enquiries.

use super::{Owned, States, Wanted, query, unreadable, write_rows};
use crate::state::{Lead, RowState};
use common::db::TxError;
use common::model::{ClientId, LeadId, Stage, TenantId};
use deadpool_postgres::Transaction;
use serde_json::Value;
use tokio_postgres::Row;

// Of a client's enquiries only those that a rule can look up: the newest open ones, as many as the unit has events
// that may close one; the newest one; the newest one with an external id that an event names; and those named by id or
// trip. Their clients are locked.
pub(super) const LOAD: &str = "
    -- leads.load
    SELECT tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, lost_reason, follow_up,
           owner_email, brief::text, attribution::text, created_at, updated_at
    FROM leads
    WHERE (tenant_id, lead_id) IN (
        SELECT w.tenant_id, l.lead_id FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, client_id),
            LATERAL (SELECT lead_id FROM leads l
                     WHERE l.tenant_id = w.tenant_id AND l.client_id = w.client_id
                       AND stage NOT IN ('lost', 'archived', 'trip_booked', 'travelled')
                     ORDER BY lead_id DESC LIMIT $9::bigint) l
        UNION ALL
        SELECT w.tenant_id, l.lead_id FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, client_id),
            LATERAL (SELECT lead_id FROM leads l
                     WHERE l.tenant_id = w.tenant_id AND l.client_id = w.client_id
                     ORDER BY lead_id DESC LIMIT 1) l
        UNION ALL
        SELECT DISTINCT ON (l.tenant_id, l.external_id, l.client_id) l.tenant_id, last_value(l.lead_id) OVER newest
        FROM unnest($3::uuid[], $4::text[]) AS w (tenant_id, external_id)
            JOIN leads l ON l.tenant_id = w.tenant_id AND l.external_id = w.external_id
            JOIN unnest($1::uuid[], $2::uuid[]) AS c (tenant_id, client_id)
              ON c.tenant_id = l.tenant_id AND c.client_id = l.client_id
        WINDOW newest AS (PARTITION BY l.tenant_id, l.external_id, l.client_id ORDER BY l.lead_id
                          ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
        UNION ALL
        SELECT * FROM unnest($5::uuid[], $6::uuid[]) AS w (tenant_id, lead_id)
        UNION ALL
        SELECT t.tenant_id, t.lead_id FROM unnest($7::uuid[], $8::uuid[]) AS w (tenant_id, trip_id)
            JOIN trips t ON t.tenant_id = w.tenant_id AND t.trip_id = w.trip_id)";

pub(super) const INSERT: &str = "
    -- leads.insert
    INSERT INTO leads (tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, lost_reason,
                       follow_up, owner_email, brief, attribution, created_at, updated_at)
    SELECT tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, lost_reason, follow_up,
           owner_email, brief::json, attribution::json, created_at, updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                $9::boolean[], $10::text[], $11::text[], $12::text[], $13::timestamptz[], $14::timestamptz[])
         AS new (tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, lost_reason, follow_up,
                 owner_email, brief, attribution, created_at, updated_at)";

pub(super) const UPDATE: &str = "
    -- leads.update
    UPDATE leads l
    SET title = n.title, stage = n.stage, lost_reason = n.lost_reason, follow_up = n.follow_up,
        owner_email = n.owner_email, brief = n.brief::json, updated_at = n.updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::text[], $8::text[],
                $9::timestamptz[])
         AS n (tenant_id, lead_id, title, stage, lost_reason, follow_up, owner_email, brief, updated_at)
    WHERE l.tenant_id = n.tenant_id AND l.lead_id = n.lead_id";

/// Loads the enquiries that the unit may look up, besides those of `invoices`.
pub(super) async fn load(
    tx: &Transaction<'_>,
    states: &States,
    wanted: &Wanted,
) -> Result<Vec<Row>, TxError> {
    let (client_tenants, clients) =
        if wanted.client_leads { super::load::clients_of(states) } else { Default::default() };
    let (external_tenants, external_ids) = wanted.lead_external_ids.columns();
    let (mut lead_tenants, mut leads) = wanted.leads.columns();
    for (tenant, state) in states {
        for invoice in state.invoices.values() {
            lead_tenants.push(tenant.0);
            leads.push(invoice.lead_id.0);
        }
    }
    let (trip_tenants, trips) = wanted.trips.columns();
    if clients.is_empty() && leads.is_empty() && trips.is_empty() {
        return Ok(Vec::new());
    }
    query(
        tx,
        LOAD,
        &[
            &client_tenants,
            &clients,
            &external_tenants,
            &external_ids,
            &lead_tenants,
            &leads,
            &trip_tenants,
            &trips,
            &wanted.events,
        ],
    )
    .await
}

/// Takes in what [`load`] found.
pub(super) fn fill(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        if let Some(state) = states.get_mut(&TenantId(row.get("tenant_id"))) {
            let lead = read(row)?;
            state.leads.load(lead.id, lead);
        }
    }
    Ok(())
}

fn read(row: &Row) -> Result<Lead, TxError> {
    let attribution: Option<&str> = row.get("attribution");
    let attribution = attribution.map(serde_json::from_str::<Value>).transpose();
    Ok(Lead {
        id: LeadId(row.get("lead_id")),
        client_id: ClientId(row.get("client_id")),
        enquiry_number: row.get("enquiry_number"),
        external_id: row.get("external_id"),
        title: row.get("title"),
        stage: Stage::parse(row.get("stage")).ok_or_else(|| unreadable("stage"))?,
        lost_reason: row.get("lost_reason"),
        follow_up: row.get("follow_up"),
        owner: row.get("owner_email"),
        brief: serde_json::from_str(row.get("brief")).map_err(|_| unreadable("brief"))?,
        attribution: attribution.map_err(|_| unreadable("attribution"))?,
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
    })
}

fn in_state(states: &States, wanted: RowState) -> Vec<Owned<'_, Lead>> {
    super::rows(states, |state| state.leads.in_state(wanted))
}

/// Writes new enquiries.
pub(super) async fn insert(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    write_rows!(tx, INSERT, in_state(states, RowState::New), |lead| [
        lead.tenant,
        lead.id.0,
        lead.client_id.0,
        lead.enquiry_number.as_str(),
        lead.external_id.as_deref(),
        lead.title.as_str(),
        lead.stage.as_str(),
        lead.lost_reason.as_deref(),
        lead.follow_up,
        lead.owner.as_deref(),
        super::json(&lead.brief),
        lead.attribution.as_ref().map(Value::to_string),
        lead.created_at,
        lead.updated_at,
    ])
}

/// Writes changed enquiries.
pub(super) async fn update(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    write_rows!(tx, UPDATE, in_state(states, RowState::Changed), |lead| [
        lead.tenant,
        lead.id.0,
        lead.title.as_str(),
        lead.stage.as_str(),
        lead.lost_reason.as_deref(),
        lead.follow_up,
        lead.owner.as_deref(),
        super::json(&lead.brief),
        lead.updated_at,
    ])
}
