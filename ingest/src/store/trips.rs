//! `trips` with their newest proposal, as the API returns them.

use super::{RowError, leads};
use common::model::{LeadId, TripId};
use common::view::{ProposalView, TripView};
use tokio_postgres::Row;
use uuid::Uuid;

common::statements! {
    /// Loads the trip of each lead. The leads may be of several requests and tenants; `place` is the position of the lead in the
    /// arguments, from 1. The trip's columns are null when a lead has no trip.
    pub(crate) const OF_LEADS = "-- trips.of_leads
    SELECT t.trip_id, l.lead_id, l.enquiry_number, t.title, l.stage, t.brief::text AS brief, l.owner_email,
           m.name AS owner_name, p.status, p.sent_at, t.created_at, t.updated_at, w.place
    FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY w (tenant_id, lead_id, place)
    CROSS JOIN LATERAL (SELECT * FROM leads l
                        WHERE l.tenant_id = w.tenant_id AND l.lead_id = w.lead_id LIMIT 1) AS l
    LEFT JOIN LATERAL (SELECT * FROM trips t
                       WHERE t.lead_id = l.lead_id AND t.tenant_id::text = l.tenant_id::text LIMIT 1) AS t ON true
    LEFT JOIN members m ON m.tenant_id = l.tenant_id AND m.email = l.owner_email
    LEFT JOIN LATERAL (
        SELECT n.status, n.sent_at FROM proposals n WHERE n.trip_id = t.trip_id AND n.tenant_id IS NOT DISTINCT FROM t.tenant_id
        ORDER BY n.proposal_id DESC LIMIT 1) p ON true";
}

/// Decodes a row; `None` when there is no trip.
pub(crate) fn view(row: &Row) -> Result<Option<TripView>, RowError> {
    let Some(id) = row.try_get::<_, Option<Uuid>>("trip_id")? else { return Ok(None) };
    let mut brief = leads::brief(row)?;
    Ok(Some(TripView {
        id: TripId(id),
        lead_id: LeadId(row.try_get("lead_id")?),
        enquiry_number: row.try_get("enquiry_number")?,
        title: row.try_get("title")?,
        stage: leads::stage(row)?,
        guest_nationality: brief.guest_nationality.take(),
        brief: brief.into(),
        owner: leads::owner(row)?,
        proposal: ProposalView { status: row.try_get("status")?, sent_at: row.try_get("sent_at")? },
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        itinerary_applied: None,
        itinerary_not_applied_reason: None,
    }))
}
