//! The transaction pipeline: what a unit costs, however large the tables are.

mod faults;
pub(crate) mod plans;
mod round_trips;

/// SQL for the advisory lock of the tenant `acme` on an email.
fn email_lock(email: &str) -> String {
    format!(
        "(SELECT ('x' || encode(substring(sha256(uuid_send(tenant_id) || 'email'::bytea || '\\x00'::bytea
            || '{email}'::bytea) from 1 for 8), 'hex'))::bit(64)::bigint FROM tenants WHERE slug = 'acme')"
    )
}
