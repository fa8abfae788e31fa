//! The clients that a unit names, by whatever it names them: email, external id, phone, id, lead or booking. Statements on several
//! tables begin with this look-up.

use super::{ClientReferences, WantedIdentities};
use common::db::Query;
use uuid::Uuid;

/// The clients that a unit names: `found (tenant_id, client_id)`, a CTE over the parameters that [`bind_found`] binds.
macro_rules! found {
    () => {
        "found (tenant_id, client_id) AS MATERIALIZED (
        SELECT w.tenant_id, c.client_id FROM unnest($1::uuid[], $2::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE email_key = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($3::uuid[], $4::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE external_id = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($5::uuid[], $6::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE phone_digits = w.key AND tenant_id::text = w.tenant_id::text
                                ORDER BY created_at, client_id LIMIT $7::bigint + 1) AS c
        UNION
        SELECT * FROM unnest($8::uuid[], $9::uuid[])
        UNION
        SELECT w.tenant_id, l.client_id FROM unnest($10::uuid[], $11::uuid[]) AS w (tenant_id, lead_id)
            CROSS JOIN LATERAL (SELECT client_id FROM leads
                                WHERE tenant_id = w.tenant_id AND lead_id = w.lead_id LIMIT 1) AS l
        UNION
        SELECT w.tenant_id, i.client_id FROM unnest($12::uuid[], $13::text[]) AS w (tenant_id, booking_ref)
            CROSS JOIN LATERAL (SELECT client_id FROM invoices
                                WHERE tenant_id = w.tenant_id AND booking_ref = w.booking_ref LIMIT 1) AS i
    )"
    };
}
pub(super) use found;

/// Binds what [`found!`] takes, `$1` to `$13`.
pub(super) fn bind_found<'a>(
    query: Query<'a>, people: &WantedIdentities, events: i64, named: &ClientReferences,
) -> Query<'a> {
    let (email_tenants, emails) = people.emails.columns();
    let (external_tenants, external_ids): (Vec<Uuid>, Vec<String>) = people.external_ids.keys().cloned().unzip();
    let (phone_tenants, phones) = people.phones.columns();
    let (id_tenants, ids) = named.ids.columns();
    let (lead_tenants, leads) = named.leads.columns();
    let (ref_tenants, refs) = named.booking_refs.columns();
    query
        .bind(email_tenants)
        .bind(emails)
        .bind(external_tenants)
        .bind(external_ids)
        .bind(phone_tenants)
        .bind(phones)
        .bind(events)
        .bind(id_tenants)
        .bind(ids)
        .bind(lead_tenants)
        .bind(leads)
        .bind(ref_tenants)
        .bind(refs)
}
