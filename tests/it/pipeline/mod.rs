//! The transaction pipeline: what a unit costs, however large the tables are.

mod commands;
mod enquiry_numbers;
mod faults;
mod plans;
mod previous_release;
mod round_trips;
mod workload;

/// SQL for the advisory lock of the tenant `acme` on an email, which is the same in all releases.
fn email_lock(email: &str) -> String {
    format!(
        "(SELECT ('x' || encode(substring(sha256(uuid_send(tenant_id) || 'email'::bytea || '\\x00'::bytea
            || '{email}'::bytea) from 1 for 8), 'hex'))::bit(64)::bigint FROM tenants WHERE slug = 'acme')"
    )
}
