//! Every column that can hold personal data is covered by erasure and export, or says why it is not.

use std::collections::BTreeSet;
use tests::{TestDatabase, text};

/// Tables whose rows of a person are exported and erased.
pub(super) const COVERED: [&str; 19] = [
    "account_contacts", "attempts", "client_credits", "clients", "discoveries", "event_ledger", "former_identities",
    "idempotency_keys", "inbox_messages", "invoices", "itineraries", "leads", "notifications", "outbox", "proposals",
    "timeline", "traveller_profiles", "travelers", "trips",
];

/// Columns of other tables, and why they hold nothing of a client. `*` stands for all of a table's columns.
const WITHOUT: [(&str, &str); 32] = [
    ("activity_minutes.* api_key_requests.* erasures.removed queue_minutes.* usage_counters.*", "counts"),
    ("enquiry_counters.* key_revision.*", "counts"),
    ("advisor_actions.*", "messages, matched like dead letters; tests/it/advisor/turns.rs"),
    ("api_key_uses.*", "keys and times"),
    ("api_keys.*", "keys of partners, made by operators"),
    ("attention_mails.*", "keys, receivers and errors, in Connect's own words"),
    ("audit_records.who", "operators"),
    ("audit_records.interface intake_pressure.queue", "one of two words"),
    ("audit_records.action", "names of actions"),
    ("audit_records.target", "of a client nothing but the id; tests/it/connectctl/audit"),
    ("console_login_links.* console_sessions.*", "operators and staff of the tenant"),
    ("console_spent_forms.*", "hashes of what operators and staff have sent, and paths of pages"),
    ("console_spent_sign_ins.state_hash", "hashes of random texts"),
    ("deliveries.state", "one of four words"),
    ("deliveries.last_error", "erased: set to null"),
    ("erased_identities.identity_hash", "keyed hashes, which remain (D32)"),
    ("erasure_key.sealed", "a random key"),
    ("failure_minutes.*", "counts, keys, requests, and why attempts failed, in Connect's own words"),
    ("master_key_canary.sealed", "a constant text"),
    ("members.*", "staff of the tenant"),
    ("queue_states.*", "counts and times"),
    ("refused_requests.*", "keys of partners, and texts of Connect's own; tests/it/refusals/reasons.rs"),
    ("replay_entries.key_prefix", "keys of partners"),
    ("replay_entries.mac", "signatures"),
    ("replay_entries.idempotency_key", "erased: set to null; kept for minutes otherwise"),
    ("replay_jobs.*", "a filter of deliveries, made by operators, and its progress"),
    ("schema_compatibility.* schema_history.*", "migrations"),
    ("subscriptions.*", "receivers, made by operators"),
    ("tenants.*", "settings, made by operators"),
    ("replication_heartbeat.*", "a time"),
    ("erasures.*", "ids and times, which remain (D32)"),
    ("deliveries.*", "ids, times and counts"),
];

/// Types that can hold what somebody wrote. Ids, times and numbers do not identify a person once the other columns are gone.
const COLUMNS: &str = "SELECT c.table_name AS of, c.column_name AS name FROM information_schema.columns c
    JOIN pg_class t ON t.relname = c.table_name AND t.relnamespace = 'public'::regnamespace AND NOT t.relispartition
    WHERE c.table_schema = 'public' AND (c.data_type IN ('text', 'character varying', 'json', 'jsonb', 'bytea', 'ARRAY')
        OR c.udt_name NOT IN ('uuid', 'timestamptz', 'bool', 'int2', 'int4', 'int8', 'float8', 'numeric', 'date'))";

#[tokio::test]
async fn every_column_that_can_hold_personal_data_is_covered_or_has_a_reason() {
    let database = TestDatabase::new().await;
    let columns = database.rows(COLUMNS, &[]).await;
    assert!(columns.len() > 80, "{}", columns.len());
    let listed: Vec<&str> = WITHOUT.iter().flat_map(|(columns, _)| columns.split(' ')).collect();
    let mut tables = BTreeSet::new();
    for column in &columns {
        let (table, name) = (text(&column["of"]), text(&column["name"]));
        tables.insert(table);
        let has_reason = ["*", name].iter().any(|column| listed.contains(&format!("{table}.{column}").as_str()));
        assert_ne!(
            COVERED.contains(&table),
            has_reason,
            "{table}.{name} must be covered by admin::store::person_tables, or have a reason here"
        );
    }
    for table in COVERED {
        assert!(tables.contains(table), "{table} has no such column");
    }
}
