//! The event ledger, by which duplicates are detected (D7).

use super::{Columns, LoadRequest, States, rows, write_rows};
use crate::state::LedgerEntry;
use chrono::{DateTime, Utc};
use common::db::Query;
use common::model::{ClientId, DiscoveryId, LeadId, TenantId, TripId};
use tokio_postgres::Row;

common::statements! {
    const LOAD = "
    -- ledger.load
    SELECT w.tenant_id, w.event_id, l.event_type, l.key_prefix, l.request_id, l.ordinal, l.client_id, l.lead_id,
           l.trip_id, l.discovery_id, l.warnings
    FROM (SELECT unnest($1::uuid[]), unnest($2::text[])) AS w (tenant_id, event_id)
    CROSS JOIN LATERAL (SELECT * FROM event_ledger l
                        WHERE l.tenant_id = w.tenant_id AND l.event_id = w.event_id LIMIT 1) AS l";

    // No ON CONFLICT: an event that another unit applied in the meantime must not be applied twice. Its key raises a
    // unique violation, and the unit runs again and finds it.
    const INSERT = "
    -- ledger.insert
    INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, lead_id,
                              trip_id, discovery_id, warnings, trace_id, applied_at)
    SELECT tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, lead_id, trip_id, discovery_id,
           coalesce(string_to_array(warnings, E'\\n'), '{}'), trace_id, $13
    FROM (SELECT unnest($1::uuid[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::uuid[]),
                 unnest($6::smallint[]), unnest($7::uuid[]), unnest($8::uuid[]), unnest($9::uuid[]), unnest($10::uuid[]),
                 unnest($11::text[]), unnest($12::uuid[]))
         AS new (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, lead_id, trip_id,
                 discovery_id, warnings, trace_id)
    ORDER BY tenant_id, event_id";
}

/// Loads the entries of the unit's events that were applied before.
pub(super) fn load(request: &LoadRequest) -> Query<'static> {
    let (tenants, ids) = request.event_ids.columns();
    Query::new(LOAD).bind(tenants).bind(ids)
}

/// Adds the rows of [`load`] to the states.
pub(super) fn fill(states: &mut States, rows: &[Row]) {
    for row in rows {
        let mut columns = Columns::of(row);
        let Some(state) = states.get_mut(&TenantId(columns.take())) else { continue };
        let entry = LedgerEntry {
            event_id: columns.take(),
            event_type: columns.take(),
            key_prefix: columns.take(),
            request_id: columns.take(),
            ordinal: columns.take(),
            client_id: columns.take::<Option<_>>().map(ClientId),
            lead_id: columns.take::<Option<_>>().map(LeadId),
            trip_id: columns.take::<Option<_>>().map(TripId),
            discovery_id: columns.take::<Option<_>>().map(DiscoveryId),
            warnings: columns.take(),
            trace_id: None,
        };
        state.ledger.insert(entry.event_id.clone(), entry);
    }
}

/// Inserts the entries of the events that this unit applied.
pub(super) fn insert(states: &States, now: DateTime<Utc>) -> Option<Query<'_>> {
    let new = rows(states, |state| state.ledger_added.iter().map(|id| &state.ledger[id]));
    write_rows!(
        INSERT,
        new,
        |tenant, entry| [
            tenant,
            entry.event_id.as_str(),
            entry.event_type.as_str(),
            entry.key_prefix.as_str(),
            entry.request_id,
            entry.ordinal,
            entry.client_id.map(|id| id.0),
            entry.lead_id.map(|id| id.0),
            entry.trip_id.map(|id| id.0),
            entry.discovery_id.map(|id| id.0),
            // Arrays of arrays must be rectangular in Postgres, so an event's warnings are sent as lines of one text.
            (!entry.warnings.is_empty()).then(|| entry.warnings.join("\n")),
            entry.trace_id,
        ],
        now
    )
}
