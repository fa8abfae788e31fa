//! SQL. Statements are set-based, named in their first line, and read a bounded number of rows, whatever waits.
//!
//! The dispatcher writes only deliveries, their numbers and attempts, what the fan-out has done in `outbox_pending`, its leases,
//! and the progress of replay jobs. Statements that write for a slot lock its lease `FOR KEY SHARE`: one that belongs to an
//! earlier epoch writes nothing, and the holder does not change before a statement of the current one has committed.

mod deliveries;
mod due;
mod fan_out;
mod gauges;
mod record;
mod replay_jobs;
pub(crate) mod slots;

pub(crate) use deliveries::{Notice, drop_pending, load_notices, mark_noticed};
pub(crate) use due::{Due, DueSubscription, Read, load_due, look};
pub(crate) use fan_out::{FanOutRound, LEFT, SlotTurn, fan_out};
pub(crate) use gauges::{count, count_due};
pub(crate) use record::{AttemptRecord, record};
pub(crate) use replay_jobs::{load_open_jobs, replay_batch};

use bytes::Bytes;
use common::db::{Database, Sql, TxError};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// All statements, by module, for the tests that prepare and explain each one against the schema. A module that is missing here
/// has a list that nobody uses, which the compiler reports.
pub const STATEMENTS: &[&[Sql]] = &[
    deliveries::STATEMENTS,
    due::STATEMENTS,
    fan_out::STATEMENTS,
    gauges::STATEMENTS,
    record::STATEMENTS,
    replay_jobs::STATEMENTS,
    slots::STATEMENTS,
];

/// Longest wait for a statement. Afterwards its connection counts as hung and is not used again.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Before the first slot, and the first subscription or tenant in it.
pub(crate) const FIRST: (i16, Uuid) = (-1, Uuid::nil());

/// The right to write for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// 0 to 63.
    pub slot: i16,
    /// Since when this dispatcher holds it.
    pub epoch: i64,
}

/// A delivery that is to be attempted.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub tenant_id: Uuid,
    pub subscription_id: Uuid,
    /// Its number in the log of its subscription, `X-Connect-Sequence`.
    pub number: i64,
    /// `X-Connect-Delivery`.
    pub delivery_id: Uuid,
    pub event_id: Uuid,
    /// Attempts that are recorded.
    pub attempts: i16,
    /// Of these, the attempts before the last replay.
    pub attempts_before_replay: i16,
    /// `None` if the event is not stored any more.
    pub event: Option<OutboundEvent>,
    pub target: Target,
}

/// What is sent of an event.
#[derive(Clone, Debug)]
pub(crate) struct OutboundEvent {
    /// Such as `lead.assigned`.
    pub event_type: String,
    /// The JSON text that is signed and sent.
    pub envelope: Bytes,
    /// The trace context of its cause, if known.
    pub traceparent: Option<String>,
    /// The request that caused it, if known.
    pub request_id: Option<Uuid>,
}

/// The receiver of a subscription's deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// `X-Connect-Tenant`.
    pub slug: String,
    /// The receiver's URL, sealed.
    pub url_sealed: Vec<u8>,
    /// Sealed signing secrets: the current one, then the previous one during a rotation's overlap.
    pub sealed: Vec<Vec<u8>>,
    /// Whether its deliveries wait.
    pub is_paused: bool,
    /// Whether its deliveries are dropped.
    pub is_removed: bool,
}

/// The columns of [`Delivery`], of rows `d` of deliveries with a boolean `is_sent`: event and receiver are read only for these.
macro_rules! delivery_columns {
    () => {
        "d.tenant_id, d.subscription_id, d.number, d.delivery_id, d.attempts, d.attempts_before,
         o.event_type, o.envelope, o.traceparent, o.request_id, t.slug, s.url_sealed, s.secret_sealed, s.old_secret_sealed,
         s.is_paused, s.is_removed, d.event_id"
    };
}
macro_rules! joined_to_delivery {
    () => {
        "LEFT JOIN LATERAL (
            SELECT event_type, envelope::text, traceparent, request_id FROM outbox o
            WHERE d.is_sent AND o.tenant_id = d.tenant_id AND o.event_id = d.event_id LIMIT 1
        ) AS o ON true
        CROSS JOIN LATERAL (
            SELECT url_sealed, secret_sealed,
                   CASE WHEN old_secret_until > now() THEN old_secret_sealed END AS old_secret_sealed,
                   paused_at IS NOT NULL AS is_paused, removed_at IS NOT NULL AS is_removed
            FROM subscriptions s WHERE s.tenant_id = d.tenant_id AND s.subscription_id = d.subscription_id LIMIT 1
        ) AS s
        CROSS JOIN LATERAL (SELECT slug FROM tenants t WHERE t.tenant_id = d.tenant_id LIMIT 1) AS t"
    };
}
/// Those of the leases `$1` (slots) and `$2` (epochs) that `$3` (dispatcher) still holds. They stay with it until the end of the
/// transaction.
macro_rules! leases {
    () => {
        "SELECT held.slot, wanted.epoch
        FROM unnest($1::smallint[], $2::bigint[]) AS wanted (slot, epoch)
        CROSS JOIN LATERAL (
            SELECT slot FROM dispatcher_slots s WHERE s.slot = wanted.slot AND s.holder = $3 AND s.epoch = wanted.epoch
            FOR KEY SHARE
        ) AS held"
    };
}
use {delivery_columns, joined_to_delivery, leases};

impl Delivery {
    /// Reads the columns of `delivery_columns`, with which `row` begins.
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let event = match row.try_get::<_, Option<String>>(6)? {
            None => None,
            Some(event_type) => Some(OutboundEvent {
                event_type,
                envelope: Bytes::from(row.try_get::<_, String>(7)?),
                traceparent: row.try_get(8)?,
                request_id: row.try_get(9)?,
            }),
        };
        let (current, old): (Vec<u8>, Option<Vec<u8>>) = (row.try_get(12)?, row.try_get(13)?);
        let target = Target {
            slug: row.try_get(10)?,
            url_sealed: row.try_get(11)?,
            sealed: std::iter::once(current).chain(old).collect(),
            is_paused: row.try_get(14)?,
            is_removed: row.try_get(15)?,
        };
        Ok(Self {
            tenant_id: row.try_get(0)?,
            subscription_id: row.try_get(1)?,
            number: row.try_get(2)?,
            delivery_id: row.try_get(3)?,
            event_id: row.try_get(16)?,
            attempts: row.try_get(4)?,
            attempts_before_replay: row.try_get(5)?,
            event,
            target,
        })
    }
}

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Runs a statement as a transaction of its own. A connection that does not respond in time is closed, so that no later statement
/// waits for it; the statement may be committed nevertheless.
async fn query(database: &Database, sql: Sql, parameters: Parameters<'_>) -> Result<Vec<Row>, TxError> {
    database.query_within(RESPONSE_TIMEOUT, sql.as_str(), parameters).await
}

/// A duration that Postgres has computed in seconds; zero if it is negative.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// Splits leases into the parameters of `leases`.
fn lease_columns(leases: &[Lease]) -> (Vec<i16>, Vec<i64>) {
    leases.iter().map(|lease| (lease.slot, lease.epoch)).unzip()
}
