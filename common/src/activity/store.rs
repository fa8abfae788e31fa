//! `activity_minutes`, `failure_minutes`, `queue_minutes` and `queue_states`.

use super::pending::{ActivityCounts, Cause, CauseCounts, DueNotes, QueueNotes};
use crate::broker::Queue;
use crate::db::{Client, TxError, column};
use crate::model::TenantId;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The slot of the minute of `$1` in a ring of so many, and its first moment. A program whose clock is ahead writes into the server's minute: a minute
/// of the future would keep all others from writing into its slot.
macro_rules! slot {
    ($of:literal) => {
        concat!(
            "(floor(extract(epoch FROM LEAST($1::timestamptz, now())) / 60)::bigint % ",
            $of,
            ")::smallint,
            date_trunc('minute', LEAST($1::timestamptz, now()))"
        )
    };
}

/// Maximum number of tenants in one statement.
const CHUNK: usize = 500;

/// Adds to the counts of the same minute, and replaces those of an earlier one.
macro_rules! sum {
    ($column:literal) => {
        concat!(
            $column,
            " = excluded.",
            $column,
            " + CASE WHEN stored.minute = excluded.minute THEN stored.",
            $column,
            " ELSE 0 END"
        )
    };
}

crate::statements! {
    /// The order of rows keeps statements of several programs from deadlocks. A minute that is over is not written again.
    const ADD = concat!("-- activity_minutes.add
    INSERT INTO activity_minutes AS stored
        (tenant_id, slot, minute, accepted, refused, applied, failed, delivered, undelivered)
    SELECT tenant_id, slot, first, accepted, refused, applied, failed, delivered, undelivered
    FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
        AS new (tenant_id, accepted, refused, applied, failed, delivered, undelivered)
    CROSS JOIN (VALUES
        (", slot!("64"), "),
        ((64 + floor(extract(epoch FROM LEAST($1::timestamptz, now())) / 3600)::bigint % 192)::smallint,
            date_trunc('hour', LEAST($1::timestamptz, now()), 'UTC'))
    ) AS period (slot, first)
    ORDER BY tenant_id, slot
    ON CONFLICT (tenant_id, slot) DO UPDATE SET minute = excluded.minute, ",
        sum!("accepted"), ", ", sum!("refused"), ", ", sum!("applied"), ", ", sum!("failed"), ", ",
        sum!("delivered"), ", ", sum!("undelivered"), "
    WHERE stored.minute <= excluded.minute");

    /// In the order of tenants and causes, as above.
    const ADD_CAUSES = concat!("-- failure_minutes.add
    INSERT INTO failure_minutes AS stored (tenant_id, cause, slot, minute, failed, succeeded, last_error)
    SELECT tenant_id, cause, ", slot!("16"), ", failed, succeeded, last_error
    FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::bigint[], $6::text[])
        AS new (tenant_id, cause, failed, succeeded, last_error)
    ORDER BY tenant_id, cause
    ON CONFLICT (tenant_id, cause, slot) DO UPDATE SET minute = excluded.minute, ",
        sum!("failed"), ", ", sum!("succeeded"), ",
        last_error = coalesce(excluded.last_error, CASE WHEN stored.minute = excluded.minute THEN stored.last_error END)
    WHERE stored.minute <= excluded.minute");

    /// Several programs look at each queue: the newest look counts, and the most of a minute.
    const QUEUES = concat!("-- queue_minutes.add
    WITH looks AS (
        INSERT INTO queue_states AS stored (queue, observed_at, ready, consumers, dead, empty_at, taken_of)
        SELECT queue, LEAST(observed_at, now()), ready, consumers, dead,
            CASE WHEN empty_at IS NOT NULL THEN LEAST(empty_at, now()) END,
            CASE WHEN taken_of IS NOT NULL THEN LEAST(taken_of, now()) END
        FROM unnest($2::text[], $4::timestamptz[], $5::bigint[], $6::bigint[], $7::bigint[], $8::timestamptz[],
            $9::timestamptz[]) AS new (queue, observed_at, ready, consumers, dead, empty_at, taken_of)
        ORDER BY queue
        ON CONFLICT (queue) DO UPDATE SET
            observed_at = GREATEST(stored.observed_at, excluded.observed_at),
            ready = CASE WHEN excluded.observed_at >= stored.observed_at THEN excluded.ready ELSE stored.ready END,
            consumers = CASE WHEN excluded.observed_at >= stored.observed_at THEN excluded.consumers ELSE stored.consumers END,
            dead = CASE WHEN excluded.observed_at >= stored.observed_at THEN excluded.dead ELSE stored.dead END,
            empty_at = GREATEST(stored.empty_at, excluded.empty_at),
            taken_of = GREATEST(stored.taken_of, excluded.taken_of)
    )
    INSERT INTO queue_minutes AS stored (queue, slot, minute, ready)
    SELECT queue, ", slot!("64"), ", most FROM unnest($2::text[], $3::bigint[]) AS new (queue, most)
    ORDER BY queue
    ON CONFLICT (queue, slot) DO UPDATE SET minute = excluded.minute,
        ready = CASE WHEN stored.minute = excluded.minute THEN GREATEST(stored.ready, excluded.ready) ELSE excluded.ready END
    WHERE stored.minute <= excluded.minute");
}

/// Writes what is due, as of `now`, and removes what was written from it.
pub(super) async fn write(client: &Client, due: &mut DueNotes, now: DateTime<Utc>) -> Result<(), TxError> {
    while due.tenants.len() > CHUNK {
        let chunk: Vec<(TenantId, ActivityCounts)> =
            due.tenants.iter().take(CHUNK).map(|(tenant, counts)| (*tenant, *counts)).collect();
        let rows: Vec<(Uuid, ActivityCounts)> = chunk.iter().map(|(tenant, counts)| (tenant.0, *counts)).collect();
        write_counts(client, &rows, now).await?;
        for (tenant, _) in chunk {
            due.tenants.remove(&tenant);
        }
    }
    if due.all != ActivityCounts::default() {
        let all = std::iter::once((Uuid::nil(), due.all));
        let rows: Vec<(Uuid, ActivityCounts)> =
            all.chain(due.tenants.iter().map(|(tenant, counts)| (tenant.0, *counts))).collect();
        write_counts(client, &rows, now).await?;
        due.all = ActivityCounts::default();
        due.tenants.clear();
    }
    if !due.causes.is_empty() {
        write_causes(client, &due.causes, now).await?;
        due.causes.clear();
    }
    if !due.queues.is_empty() {
        write_queues(client, &due.queues, now).await?;
        due.queues.clear();
    }
    Ok(())
}

async fn write_counts(client: &Client, rows: &[(Uuid, ActivityCounts)], now: DateTime<Utc>) -> Result<(), TxError> {
    let counts = |count: fn(&ActivityCounts) -> u64| column(rows, |(_, counts)| number(count(counts)));
    let tenants = column(rows, |(tenant, _)| *tenant);
    let (accepted, refused) = (counts(|counts| counts.accepted), counts(|counts| counts.refused));
    let (applied, failed) = (counts(|counts| counts.applied), counts(|counts| counts.failed));
    let (delivered, undelivered) = (counts(|counts| counts.delivered), counts(|counts| counts.undelivered));
    let statement = client.prepare_cached(ADD.as_str()).await?;
    client
        .execute(&statement, &[&now, &tenants, &accepted, &refused, &applied, &failed, &delivered, &undelivered])
        .await?;
    Ok(())
}

async fn write_causes(
    client: &Client, causes: &BTreeMap<(TenantId, Cause), CauseCounts>, now: DateTime<Utc>,
) -> Result<(), TxError> {
    let rows: Vec<_> = causes.iter().map(|((tenant, cause), counts)| (tenant.0, cause.to_string(), counts)).collect();
    let tenants = column(&rows, |(tenant, ..)| *tenant);
    let names = column(&rows, |(_, cause, _)| cause.as_str());
    let failed = column(&rows, |(.., counts)| number(counts.failed));
    let succeeded = column(&rows, |(.., counts)| number(counts.succeeded));
    let errors = column(&rows, |(.., counts)| counts.last_error.as_deref());
    let statement = client.prepare_cached(ADD_CAUSES.as_str()).await?;
    client.execute(&statement, &[&now, &tenants, &names, &failed, &succeeded, &errors]).await?;
    Ok(())
}

async fn write_queues(client: &Client, queues: &[(Queue, QueueNotes)], now: DateTime<Utc>) -> Result<(), TxError> {
    // Only queues that were looked at are written.
    let looks: Vec<_> =
        queues.iter().filter_map(|(queue, notes)| notes.last.map(|look| (*queue, *notes, look))).collect();
    let names = column(&looks, |(queue, ..)| queue.as_str());
    let most = column(&looks, |(_, notes, _)| i64::from(notes.max_ready));
    let at = column(&looks, |(.., look)| look.at);
    let ready = column(&looks, |(.., look)| i64::from(look.ready));
    let consumers = column(&looks, |(.., look)| i64::from(look.consumers));
    let dead = column(&looks, |(.., look)| i64::from(look.dead));
    let empty_at = column(&looks, |(_, notes, _)| notes.empty_at);
    let taken_of = column(&looks, |(_, notes, _)| notes.newest_handled_published_at);
    let statement = client.prepare_cached(QUEUES.as_str()).await?;
    client.execute(&statement, &[&now, &names, &most, &at, &ready, &consumers, &dead, &empty_at, &taken_of]).await?;
    Ok(())
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
