//! The transaction pipeline: what a unit costs, whatever the tables hold.

mod faults;
mod numbers;
mod plans;
mod releases;
mod round_trips;
mod workload;

/// The lock of the agency `acme` on an email, on which all releases agree, in SQL.
fn email_lock(email: &str) -> String {
    format!(
        "(SELECT ('x' || encode(substring(sha256(uuid_send(tenant_id) || 'email'::bytea || '\\x00'::bytea
            || '{email}'::bytea) from 1 for 8), 'hex'))::bit(64)::bigint FROM tenants WHERE slug = 'acme')"
    )
}
