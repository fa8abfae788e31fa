//! Leads, each with its trip; on request also with the trip's newest proposal and the discovery record.

use super::{
    ClientReferences, Columns, LoadRequest, States, WantedIdentities, bind_found, discoveries, found, proposals, rows,
    trips, unreadable, write_rows,
};
use crate::state::{Lead, RowState};
use common::db::{Query, TxError};
use common::model::{ClientId, LeadId, Stage, TenantId};
use serde_json::Value;
use tokio_postgres::Row;

/// The constraint that no two leads of a tenant have one enquiry number.
pub(crate) const ENQUIRY_NUMBER_KEY: &str = "leads_tenant_enquiry_number_key";

common::statements! {
    // Loads only the leads that a rule can look up. Of each related client: the newest open ones (one more than the unit has
    // events that may close one), the newest one, and the newest one with each external id that an event names. Also the
    // leads named by id, by trip and by booking.
    //
    // An external id usually names one lead, which is found by that id alone. But thousands of leads may share one: for an id
    // with more than 8 leads, the newest lead of each client is looked up.
    //
    // A newest lead is the last one of the index up to the client's (or the id's) greatest possible entry, if it is theirs. An
    // equality would say the same, but let the planner of a session without our settings expect one row, and then read and sort
    // all of them. The tenant is compared where the lead itself is read.
    const LOAD = concat!(
    "
    -- leads.load
    WITH ",
    found!(),
    ",
    shared (tenant_id, external_id) AS MATERIALIZED (
        SELECT w.tenant_id, w.external_id FROM unnest($15::uuid[], $16::text[]) AS w (tenant_id, external_id)
            CROSS JOIN LATERAL (SELECT FROM leads
                                WHERE external_id = w.external_id AND tenant_id::text = w.tenant_id::text
                                OFFSET 8 LIMIT 1) AS l
    ),
    wanted (tenant_id, lead_id) AS MATERIALIZED (
        SELECT found.tenant_id, l.lead_id FROM found
            CROSS JOIN LATERAL (SELECT lead_id FROM leads
                                WHERE client_id::text = found.client_id::text AND tenant_id IS NOT DISTINCT FROM found.tenant_id
                                  AND stage NOT IN ('lost', 'archived', 'trip_booked', 'travelled')
                                ORDER BY lead_id DESC LIMIT $14::bigint + 1) AS l
        UNION
        SELECT found.tenant_id, l.lead_id FROM found
            CROSS JOIN LATERAL (SELECT client_id, lead_id FROM leads
                                WHERE client_id IS NOT NULL
                                  AND (client_id, lead_id) <= (found.client_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
                                ORDER BY client_id DESC, lead_id DESC LIMIT 1) AS l
            WHERE l.client_id = found.client_id
        UNION
        SELECT w.tenant_id, l.lead_id FROM unnest($15::uuid[], $16::text[]) AS w (tenant_id, external_id)
            CROSS JOIN LATERAL (SELECT lead_id, client_id FROM leads
                                WHERE external_id = w.external_id AND tenant_id::text = w.tenant_id::text LIMIT 8) AS l
            JOIN found ON found.tenant_id = w.tenant_id AND found.client_id = l.client_id
        UNION
        SELECT found.tenant_id, l.lead_id FROM shared JOIN found ON found.tenant_id = shared.tenant_id
            CROSS JOIN LATERAL (SELECT client_id, external_id, lead_id FROM leads
                                WHERE external_id IS NOT NULL
                                  AND (client_id::text || ':' || external_id, lead_id)
                                      <= (found.client_id::text || ':' || shared.external_id,
                                          'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
                                ORDER BY client_id::text || ':' || external_id DESC, lead_id DESC LIMIT 1) AS l
            WHERE l.client_id = found.client_id AND l.external_id = shared.external_id
        UNION
        SELECT * FROM unnest($17::uuid[], $18::uuid[])
        UNION
        SELECT w.tenant_id, t.lead_id FROM unnest($19::uuid[], $20::uuid[]) AS w (tenant_id, trip_id)
            CROSS JOIN LATERAL (SELECT lead_id FROM trips
                                WHERE tenant_id = w.tenant_id AND trip_id = w.trip_id LIMIT 1) AS t
        UNION
        SELECT w.tenant_id, i.lead_id FROM unnest($21::uuid[], $22::text[]) AS w (tenant_id, booking_ref)
            CROSS JOIN LATERAL (SELECT lead_id FROM invoices
                                WHERE tenant_id = w.tenant_id AND booking_ref = w.booking_ref LIMIT 1) AS i
        UNION
        SELECT w.tenant_id, i.lead_id FROM unnest($23::uuid[], $24::uuid[]) AS w (tenant_id, trip_id)
            CROSS JOIN LATERAL (SELECT lead_id FROM invoices
                                WHERE trip_id = w.trip_id AND tenant_id IS NOT DISTINCT FROM w.tenant_id
                                ORDER BY created_at DESC, booking_ref DESC LIMIT 1) AS i
    )
    SELECT l.tenant_id, l.lead_id, l.client_id, l.enquiry_number, l.external_id, l.title, l.stage, l.lost_reason,
           l.follow_up, l.owner_email, l.brief::text, l.attribution::text, l.created_at, l.updated_at,
           t.trip_id, t.title, t.brief::text, t.created_at, t.updated_at,
           p.proposal_id, p.status, p.title, p.url, p.channel, p.created_at, p.sent_at, p.viewed_at,
           d.discovery_id, d.client_id, d.discovery::text, d.created_at, d.updated_at
    FROM wanted AS w
    CROSS JOIN LATERAL (SELECT * FROM leads l
                        WHERE l.tenant_id = w.tenant_id AND l.lead_id = w.lead_id LIMIT 1) AS l
    LEFT JOIN LATERAL (SELECT * FROM trips t
                       WHERE t.lead_id = w.lead_id AND t.tenant_id::text = w.tenant_id::text LIMIT 1) AS t ON true
    LEFT JOIN LATERAL (SELECT * FROM proposals p
                       WHERE $25::boolean AND p.trip_id = t.trip_id AND p.tenant_id IS NOT DISTINCT FROM w.tenant_id
                       ORDER BY p.proposal_id DESC LIMIT 1) AS p ON true
    LEFT JOIN LATERAL (SELECT * FROM discoveries d
                       WHERE $26::boolean AND d.lead_id = w.lead_id AND d.tenant_id::text = w.tenant_id::text
                       LIMIT 1) AS d ON true"
    );

    const INSERT = "
    -- leads.insert
    INSERT INTO leads (tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, lost_reason,
                       follow_up, owner_email, brief, attribution, created_at, updated_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                         $9::boolean[], $10::text[], $11::text[]::json[], $12::text[]::json[], $13::timestamptz[],
                         $14::timestamptz[])";

    const UPDATE = "
    -- leads.update
    UPDATE leads l
    SET title = n.title, stage = n.stage, lost_reason = n.lost_reason, follow_up = n.follow_up,
        owner_email = n.owner_email, brief = n.brief::json, updated_at = n.updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::text[], $8::text[],
                $9::timestamptz[])
         AS n (tenant_id, lead_id, title, stage, lost_reason, follow_up, owner_email, brief, updated_at)
    WHERE l.tenant_id = n.tenant_id AND l.lead_id = n.lead_id";
}

/// Number of columns of a trip and of a proposal in [`LOAD`].
const TRIP_COLUMNS: usize = 5;
const PROPOSAL_COLUMNS: usize = 8;

/// Loads the leads that the unit may look up.
pub(super) fn load(request: &LoadRequest) -> Option<Query<'static>> {
    let is_named = !request.leads.is_empty()
        || !request.leads_by_trip.is_empty()
        || !request.booking_refs.is_empty()
        || !request.invoices_by_trip.is_empty();
    if !request.with_leads && !is_named {
        return None;
    }
    let no_people = WantedIdentities::default();
    let people = if request.with_leads { &request.related } else { &no_people };
    let query = bind_found(Query::new(LOAD), people, request.events, &ClientReferences::default());
    let (external_tenants, external_ids) = request.leads_by_external_id.columns();
    let (lead_tenants, leads) = request.leads.columns();
    let (trip_tenants, trips) = request.leads_by_trip.columns();
    let (ref_tenants, refs) = request.booking_refs.columns();
    let (booking_tenants, invoices_by_trip) = request.invoices_by_trip.columns();
    let query = query.bind(request.closing_events).bind(external_tenants).bind(external_ids);
    let query = query.bind(lead_tenants).bind(leads).bind(trip_tenants).bind(trips);
    let query = query.bind(ref_tenants).bind(refs).bind(booking_tenants).bind(invoices_by_trip);
    Some(query.bind(request.with_proposals).bind(request.with_discoveries))
}

/// Adds the rows of [`load`] to the states.
pub(super) fn fill(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let mut columns = Columns::of(row);
        let Some(state) = states.get_mut(&TenantId(columns.take())) else { continue };
        let lead = read_lead(&mut columns)?;
        let lead_id = lead.id;
        state.leads.load(lead_id, lead);
        match trips::read_trip(lead_id, &mut columns)? {
            Some(trip) => {
                match proposals::read_proposal(trip.id, &mut columns)? {
                    Some(proposal) => state.proposals.load(proposal.id, proposal),
                    None => columns.skip(PROPOSAL_COLUMNS - 1),
                }
                state.trips.load(trip.id, trip);
            }
            None => columns.skip(TRIP_COLUMNS - 1 + PROPOSAL_COLUMNS),
        }
        if let Some(record) = discoveries::read_discovery(lead_id, &mut columns)? {
            state.discoveries.load(record.id, record);
        }
    }
    Ok(())
}

fn read_lead(columns: &mut Columns<'_>) -> Result<Lead, TxError> {
    let (id, client_id) = (LeadId(columns.take()), ClientId(columns.take()));
    let (enquiry_number, external_id, title) = (columns.take(), columns.take(), columns.take());
    let stage = Stage::parse(columns.take()).ok_or_else(|| unreadable("stage"))?;
    let (lost_reason, follow_up, owner) = (columns.take(), columns.take(), columns.take());
    let brief = serde_json::from_str(columns.take()).map_err(|_| unreadable("brief"))?;
    let attribution: Option<&str> = columns.take();
    let attribution = attribution.map(serde_json::from_str::<Value>).transpose();
    Ok(Lead {
        id,
        client_id,
        enquiry_number,
        external_id,
        title,
        stage,
        lost_reason,
        follow_up,
        owner,
        brief,
        attribution: attribution.map_err(|_| unreadable("attribution"))?,
        created_at: columns.take(),
        updated_at: columns.take(),
    })
}

/// Inserts new leads. Their trips must be inserted after them.
pub(super) fn insert(states: &States) -> Option<Query<'_>> {
    let new = rows(states, |state| state.leads.in_state(RowState::New));
    write_rows!(INSERT, new, |tenant, lead| [
        tenant,
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

/// Writes changed leads, whose clients are locked.
pub(super) fn update(states: &States) -> Option<Query<'_>> {
    let changed = rows(states, |state| state.leads.in_state(RowState::Changed));
    write_rows!(UPDATE, changed, |tenant, lead| [
        tenant,
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
