//! The tables whose rows expire, with their statements. To add a table, add it to [`RULES`], and an index on its time.

use super::Rule;
use crate::db::Sql;

/// Before every UUID.
const FIRST_ID: &str = "00000000-0000-0000-0000-000000000000";

/// The smallest UUIDv7 of the millisecond of `$1`.
macro_rules! cutoff_id {
    () => {
        "rpad(lpad(to_hex(floor(extract(epoch FROM $1::timestamptz) * 1000)::bigint), 12, '0'), 32, '0')::uuid"
    };
}

/// The deliveries `d` of an event `o`. A delivery's id has the first 48 bits of its event's id, which are its time in
/// milliseconds, so that the index of ids finds them: it need not contain the event.
macro_rules! deliveries_of_event {
    () => {
        "FROM deliveries d
                WHERE d.tenant_id = o.tenant_id AND d.event_id = o.event_id
                  AND d.delivery_id >= (left(o.event_id::text, 13) || '-0000-0000-000000000000')::uuid
                  AND d.delivery_id <= (left(o.event_id::text, 13) || '-ffff-ffff-ffffffffffff')::uuid"
    };
}

/// Whether an event `o` waits for its fan-out, which adds its deliveries in the same statement.
macro_rules! is_pending {
    () => {
        "(SELECT true FROM outbox_pending p
                WHERE p.slot = get_byte(uuid_send(o.tenant_id), 15) & 63 AND p.tenant_id = o.tenant_id
                  AND p.event_id = o.event_id
                LIMIT 1)"
    };
}

/// The place and time of the refused requests beyond the newest 200 of each key that has recent ones. Those of the other keys have been
/// removed before: the worker looks once a minute.
macro_rules! excess_refusals {
    () => {
        "SELECT e.place, e.at FROM (
            SELECT DISTINCT key_prefix FROM refused_requests
            WHERE at >= greatest($1::timestamptz, now() - interval '1 day')
        ) AS k
        CROSS JOIN LATERAL (
            SELECT r.ctid AS place, r.at FROM refused_requests r
            WHERE r.key_prefix = k.key_prefix AND r.request_id IS NOT NULL
            ORDER BY r.request_id DESC OFFSET 200
        ) AS e"
    };
}

/// The statement that says which rows of a table have expired by a time of their own.
macro_rules! due_by_time {
    ($table:literal, $time:literal) => {
        Sql::registered(concat!(
            "
    -- ",
            $table,
            ".due
    SELECT ARRAY[count(*)], min(at) FROM (
        SELECT ",
            $time,
            " AS at FROM ",
            $table,
            " WHERE ",
            $time,
            " < $1 ORDER BY ",
            $time,
            " LIMIT $2::bigint
    ) AS due"
        ))
    };
}

/// A table whose rows expire by a time of their own. Others may have the time of the last row of a step, so the next one begins with it.
#[rustfmt::skip]
macro_rules! by_time {
    ($table:literal, $time:literal, $setting:ident) => {
        Rule {
            tables: &[$table],
            period: |settings| settings.$setting,
            start: "-infinity",
            expire: Sql::registered(concat!("
    -- ", $table, ".expire
    WITH removed AS (
        DELETE FROM ", $table, " WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM ", $table, "
            WHERE ", $time, " >= $2::text::timestamptz AND ", $time, " < $1 ORDER BY ", $time, " LIMIT $3::bigint
        )) RETURNING ", $time, " AS at
    )
    SELECT count(*), max(at)::text, ARRAY[count(*)] FROM removed")),
            due: due_by_time!($table, $time),
        }
    };
}

/// Ends with the transaction, so that a killed copy holds it no longer than its connection lives.
pub(super) const LOCK: Sql = Sql::registered(
    "
    -- retention.lock
    SELECT pg_try_advisory_xact_lock($1)",
);

/// All rules, in the order in which they are applied.
pub const RULES: &[Rule] = &[
    // Settled deliveries with their attempts.
    Rule {
        tables: &["deliveries", "attempts"],
        period: |settings| settings.deliveries,
        start: FIRST_ID,
        // A delivery that was replayed lately is old by its id, which has its event's time, and recent by its last attempt. It is kept.
        // If a delivery is replayed while the statement runs, its ctid has changed, so that the statement does not remove it. A delivery
        // has fewer attempts than the limit.
        expire: Sql::registered(concat!("
    -- deliveries.expire
    WITH oldest AS MATERIALIZED (
        SELECT ctid AS place, delivery_id, coalesce(last_at >= $1, false) AS is_recent FROM deliveries
        WHERE state IN ('delivered', 'dropped') AND delivery_id > $2::text::uuid AND delivery_id < ", cutoff_id!(), "
        ORDER BY delivery_id LIMIT $3::bigint
    ), removed AS (
        DELETE FROM deliveries WHERE ctid = ANY(ARRAY(SELECT place FROM oldest WHERE NOT is_recent))
        RETURNING tenant_id, delivery_id
    ), removed_attempts AS (
        DELETE FROM attempts WHERE ctid = ANY(ARRAY(
            SELECT a.place FROM removed CROSS JOIN LATERAL (
                SELECT ctid AS place FROM attempts a
                WHERE a.tenant_id = removed.tenant_id AND a.delivery_id = removed.delivery_id LIMIT 32768
            ) AS a
        )) RETURNING attempt
    )
    SELECT (SELECT count(*) FROM oldest), (SELECT delivery_id::text FROM oldest ORDER BY oldest.delivery_id DESC LIMIT 1),
           ARRAY[(SELECT count(*) FROM removed), (SELECT count(*) FROM removed_attempts)]")),
        due: Sql::registered(concat!("
    -- deliveries.due
    SELECT ARRAY[count(*), coalesce(sum(a.attempts), 0)::bigint], min(greatest(d.created_at, d.last_at))
    FROM (SELECT tenant_id, delivery_id, created_at, last_at FROM deliveries
          WHERE state IN ('delivered', 'dropped') AND delivery_id < ", cutoff_id!(), "
          ORDER BY delivery_id LIMIT $2::bigint) AS d
    CROSS JOIN LATERAL (
        SELECT count(*) AS attempts FROM attempts a WHERE a.tenant_id = d.tenant_id AND a.delivery_id = d.delivery_id
    ) AS a
    WHERE d.last_at IS NULL OR d.last_at < $1")),
    },
    // Events without deliveries that do not wait for their fan-out, so that none can be added later. Deliveries that have expired
    // themselves do not keep their event: they are removed before it.
    Rule {
        tables: &["outbox"],
        period: |settings| settings.deliveries,
        start: FIRST_ID,
        expire: Sql::registered(concat!("
    -- outbox.expire
    WITH oldest AS MATERIALIZED (
        SELECT o.place, o.event_id,
               coalesce(", is_pending!(), ", (SELECT true ", deliveries_of_event!(), "
                LIMIT 1), false) AS is_needed
        FROM (SELECT ctid AS place, tenant_id, event_id FROM outbox
              WHERE created_at IS NOT NULL AND event_id > $2::text::uuid AND event_id < ", cutoff_id!(), "
              ORDER BY event_id LIMIT $3::bigint) AS o
    ), removed AS (
        DELETE FROM outbox WHERE ctid = ANY(ARRAY(SELECT place FROM oldest WHERE NOT is_needed)) RETURNING event_id
    )
    SELECT (SELECT count(*) FROM oldest), (SELECT event_id::text FROM oldest ORDER BY oldest.event_id DESC LIMIT 1),
           ARRAY[(SELECT count(*) FROM removed)]")),
        due: Sql::registered(concat!("
    -- outbox.due
    SELECT ARRAY[count(*)], min(o.created_at)
    FROM (SELECT tenant_id, event_id, created_at FROM outbox
          WHERE created_at IS NOT NULL AND event_id < ", cutoff_id!(), "
          ORDER BY event_id LIMIT $2::bigint) AS o
    WHERE (SELECT true ", deliveries_of_event!(), "
                  AND (d.state NOT IN ('delivered', 'dropped') OR d.last_at >= $1)
           LIMIT 1) IS NULL AND ", is_pending!(), " IS NULL")),
    },
    // Refused requests expire by their number as well. Those beyond the newest ones of a key are not late.
    Rule {
        tables: &["refused_requests"],
        period: |settings| settings.refusals,
        start: "",
        expire: Sql::registered(concat!("
    -- refused_requests.expire
    WITH removed AS (
        DELETE FROM refused_requests WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM refused_requests WHERE at < $1 ORDER BY at LIMIT $3::bigint
        ) || ARRAY(
            SELECT place FROM (", excess_refusals!(), ") AS e LIMIT $3::bigint
        )) RETURNING at
    )
    SELECT count(*), $2::text, ARRAY[count(*)] FROM removed")),
        due: Sql::registered(concat!("
    -- refused_requests.due
    SELECT ARRAY[count(*)], min(at) FILTER (WHERE at < $1) FROM (
        (SELECT ctid AS place, at FROM refused_requests WHERE at < $1 ORDER BY at LIMIT $2::bigint)
        UNION
        (", excess_refusals!(), " LIMIT $2::bigint)
    ) AS due")),
    },
    by_time!("idempotency_keys", "created_at", idempotency),
    by_time!("notifications", "at", notifications),
    by_time!("event_ledger", "applied_at", ledger),
    by_time!("api_key_requests", "hour", refusals),
    // Replay jobs are kept as long as the deliveries that they replayed.
    by_time!("replay_jobs", "ended_at", deliveries),
    // Nobody may delete audit records but this function of the schema.
    Rule {
        tables: &["audit_records"],
        period: |settings| settings.audit,
        start: "-infinity",
        expire: Sql::registered(
            "
    -- audit_records.expire
    SELECT removed, last::text, ARRAY[removed] FROM expire_audit_records($1, $2::text::timestamptz, $3)",
        ),
        due: due_by_time!("audit_records", "at"),
    },
];

/// All statements of this module.
pub(super) const STATEMENTS: &[Sql] = &{
    let mut statements = [LOCK; 2 * RULES.len() + 1];
    let mut at = 0;
    while at < RULES.len() {
        statements[2 * at] = RULES[at].expire;
        statements[2 * at + 1] = RULES[at].due;
        at += 1;
    }
    statements
};
