//! The event ledger: the truth about what is a duplicate (D7).

use super::{States, Wanted, query, write_rows};
use crate::state::LedgerEntry;
use chrono::{DateTime, Utc};
use common::db::TxError;
use common::model::{ClientId, DiscoveryId, LeadId, TenantId, TripId};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

pub(super) const LOAD: &str = "
    -- ledger.load
    SELECT tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, lead_id, trip_id,
           discovery_id, warnings
    FROM event_ledger JOIN unnest($1::uuid[], $2::text[]) AS wanted (tenant_id, event_id) USING (tenant_id, event_id)";

// No ON CONFLICT: an event that another unit applied in the meantime must not be applied twice. Its key raises a
// unique violation, and the unit runs again and finds it.
pub(super) const INSERT: &str = "
    -- ledger.insert
    INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, lead_id,
                              trip_id, discovery_id, warnings, applied_at)
    SELECT tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, lead_id, trip_id, discovery_id,
           coalesce(string_to_array(warnings, E'\\n'), '{}'), $12
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::smallint[], $7::uuid[], $8::uuid[],
                $9::uuid[], $10::uuid[], $11::text[])
         AS new (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, lead_id, trip_id,
                 discovery_id, warnings)
    ORDER BY tenant_id, event_id";

/// Loads what was applied before.
pub(super) async fn load(tx: &Transaction<'_>, wanted: &Wanted) -> Result<Vec<Row>, TxError> {
    let (tenants, ids) = wanted.event_ids.columns();
    query(tx, LOAD, &[&tenants, &ids]).await
}

/// What the ledger knows of one id.
pub async fn applied(
    tx: &Transaction<'_>,
    tenant: TenantId,
    event_id: &str,
) -> Result<Option<LedgerEntry>, TxError> {
    let rows = query(tx, LOAD, &[&vec![tenant.0], &vec![event_id]]).await?;
    Ok(rows.first().map(read))
}

/// Takes in what [`load`] found.
pub(super) fn fill(states: &mut States, rows: &[Row]) {
    for row in rows {
        let Some(state) = states.get_mut(&TenantId(row.get(0))) else { continue };
        let entry = read(row);
        state.ledger.insert(entry.event_id.clone(), entry);
    }
}

fn read(row: &Row) -> LedgerEntry {
    LedgerEntry {
        event_id: row.get(1),
        event_type: row.get(2),
        key_prefix: row.get(3),
        request_id: row.get(4),
        ordinal: row.get(5),
        client_id: row.get::<_, Option<_>>(6).map(ClientId),
        lead_id: row.get::<_, Option<_>>(7).map(LeadId),
        trip_id: row.get::<_, Option<_>>(8).map(TripId),
        discovery_id: row.get::<_, Option<_>>(9).map(DiscoveryId),
        warnings: row.get(10),
    }
}

/// Writes what this unit applied.
pub(super) async fn insert(tx: &Transaction<'_>, states: &States, now: DateTime<Utc>) -> Result<(), TxError> {
    let new = super::rows(states, |state| state.ledger_added.iter().map(|id| &state.ledger[id]));
    write_rows!(
        tx,
        INSERT,
        new,
        |entry| [
            entry.tenant,
            entry.event_id.as_str(),
            entry.event_type.as_str(),
            entry.key_prefix.as_str(),
            entry.request_id,
            entry.ordinal,
            entry.client_id.map(|id| id.0),
            entry.lead_id.map(|id| id.0),
            entry.trip_id.map(|id| id.0),
            entry.discovery_id.map(|id| id.0),
            // Arrays of arrays must be rectangular in Postgres, so an event's warnings travel as lines of one text.
            (!entry.warnings.is_empty()).then(|| entry.warnings.join("\n")),
        ],
        now
    )
}
