//! The schema, the values that are sealed under the master key, rows that expired, unfinished erasures, and what needs attention.

use super::Finding;
use crate::attention::{self, Attention, Scope, ServerStates};
use crate::{AdminError, Result, secrets};
use chrono::TimeDelta;
use common::clock;
use common::db::{MasterKeyState, missing_migrations, read_master_key_state};
use common::retention::RULES;
use common::sealed::{MasterKeyRole, MasterKeys};
use common::settings::RetentionSettings;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

common::statements! {
    /// An index that is being built now is not valid yet.
    const INVALID_INDEXES = "-- doctor.invalid_indexes
    SELECT i.indexrelid::regclass::text, i.indrelid::regclass::text
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND NOT (i.indisvalid AND i.indisready AND i.indislive)
      AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
    ORDER BY 1";

    /// While the client exists, or until the dead letters have been counted.
    const UNFINISHED_ERASURES = "-- doctor.unfinished_erasures
    SELECT t.slug, e.client_id::text, e.erased_at
    FROM erasures e JOIN tenants t USING (tenant_id) LEFT JOIN clients c USING (tenant_id, client_id)
    WHERE c.client_id IS NOT NULL OR e.removed->'deadLetters' IS NULL
    ORDER BY e.erased_at LIMIT 20";
}

pub(super) async fn version(client: &Client) -> Result<Vec<Finding>> {
    Ok(match missing_migrations(client).await {
        Ok(missing) if missing.is_empty() => Vec::new(),
        Ok(missing) => vec![Finding::error(
            format!("the schema lacks {} migrations: {}", missing.len(), missing.join(", ")),
            "Run connectctl migrate",
        )],
        Err(error) => vec![Finding::error(
            crate::describe(&error),
            "Use the connectctl and the programs of the release that migrated this database",
        )],
    })
}

pub(super) async fn indexes(client: &Client) -> Result<Vec<Finding>> {
    let rows = client.query(INVALID_INDEXES.as_str(), &[]).await?;
    let of = |row: &tokio_postgres::Row| {
        let (index, table): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let fix = if index.contains("_ccnew") || index.contains("_ccold") {
            format!("An interrupted REINDEX has left it: DROP INDEX CONCURRENTLY {index}")
        } else {
            format!("REINDEX INDEX CONCURRENTLY {index}")
        };
        Ok(Finding::error(format!("the index {index} of {table} is invalid: its building was interrupted"), fix))
    };
    rows.iter().map(of).collect()
}

pub(super) async fn secrets(client: &Client, keys: &MasterKeys) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    if read_master_key_state(client, keys).await?.is_some_and(|state| !MasterKeyState::is_match(state)) {
        findings.push(Finding::error(
            "CONNECT_MASTER_KEY differs from the master key that the database was set up with: programs with this key do not work",
            "Set CONNECT_MASTER_KEY, or during a rotation CONNECT_MASTER_KEY_PREVIOUS, to the key that was used before",
        ));
    }
    for counted in secrets::count(client, keys).await? {
        let (id, values) = (&counted.key_id, counted.values);
        findings.extend(match counted.key {
            MasterKeyRole::Current => None,
            MasterKeyRole::Previous => Some(Finding::warning(
                format!("{values} values are still sealed under the previous master key {id}"),
                "Run connectctl secrets rotate",
            )),
            MasterKeyRole::Other => Some(Finding::error(
                format!("{values} values are sealed under another master key, {id}"),
                "Set CONNECT_MASTER_KEY_PREVIOUS to that key and run connectctl secrets rotate. If it is lost, rotate the secrets of the keys and subscriptions concerned",
            )),
        });
    }
    Ok(findings)
}

/// Rows that expired longer ago are removed late, as for the alert `ConnectRetentionBehind`.
const LATE: TimeDelta = TimeDelta::hours(6);

pub(super) async fn retention(client: &Client, settings: &RetentionSettings) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for rule in RULES {
        let Some(cutoff) = rule.period(settings).cutoff(clock::database_now() - LATE) else { continue };
        for (table, due) in rule.tables.iter().zip(rule.due(client, cutoff, None).await?.rows) {
            if due > 0 {
                findings.push(Finding::warning(
                    format!("{due} rows of {table} expired more than {} hours ago and were not removed", LATE.num_hours()),
                    "Start a worker and look at its log, or run connectctl retention run; check that both have the same CONNECT_RETENTION_ settings",
                ));
            }
        }
    }
    Ok(findings)
}

/// Erasures of people that have begun and not ended.
pub(super) async fn erasures(client: &Client) -> Result<Vec<Finding>> {
    let rows = client.query(UNFINISHED_ERASURES.as_str(), &[]).await?;
    let of = |row: &tokio_postgres::Row| {
        let (tenant, client, at): (String, String, _) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        Ok(Finding::warning(
            format!("the erasure of client {client} that began at {} is not finished", clock::to_text(at)),
            format!("If it does not run now: connectctl client erase --tenant {tenant} --client {client}"),
        ))
    };
    rows.iter().map(of).collect()
}

/// What operators are told that the other checks do not look at themselves, nor follows from a broker that cannot be reached.
pub(super) async fn attention(client: &Client, has_broker: bool) -> Result<Vec<Finding>> {
    let servers = ServerStates { broker: (!has_broker).then(String::new), ..ServerStates::default() };
    let found = attention::find(client, Scope::Installation(&servers)).await?;
    let of = |one: Attention| {
        let (has_stopped, fix) = (STOPPED.contains(&one.cause.as_str()), one.next_with_section());
        Finding::of(has_stopped, one.text, fix)
    };
    Ok(found.into_iter().filter(|one| !CHECKED.contains(&one.cause.as_str())).map(of).collect())
}

/// Something does not work at all.
const STOPPED: [&str; 2] = ["ConnectProgramMissing", "ConnectSlotsWithoutDispatcher"];
/// About RabbitMQ and its queues, at which the doctor looks itself.
const CHECKED: [&str; 4] =
    ["ConnectBrokerDisconnected", "ConnectProgramDown", "ConnectNoConsumers", "ConnectMessagesDeadLettered"];

/// The findings of a check of tables. A database that lacks them has a finding of its own.
pub(super) async fn if_migrated(check: impl Future<Output = Result<Vec<Finding>>>) -> Result<Vec<Finding>> {
    const LACKING: [SqlState; 3] =
        [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_FUNCTION];
    match check.await {
        Err(AdminError::Database(error)) if error.code().is_some_and(|code| LACKING.contains(code)) => Ok(Vec::new()),
        findings => findings,
    }
}
