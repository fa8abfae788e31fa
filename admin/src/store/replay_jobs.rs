//! Replay jobs, as operators see them, and what they would replay.

use super::{execute, newest as newest_rows, one, read_row};
use crate::{AdminError, Newest, Result};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::{DeliveryState, TenantId};
use serde::{Serialize, Serializer};
use std::ops::Range;
use tokio_postgres::{Client, GenericClient, Row, Transaction};
use uuid::Uuid;

common::named! {
    /// What becomes of a job. A job that is stopping replays nothing more. Names are those in JSON and in the database.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ReplayJobState {
        /// The dispatcher replays its deliveries.
        Running = "running",
        /// It was stopped, and has not ended yet.
        Stopping = "stopping",
        /// All its deliveries were replayed.
        Completed = "completed",
        /// It was stopped before all its deliveries were replayed.
        Stopped = "stopped",
    }
}

/// A replay of many deliveries, with its progress, as `connectctl replay` prints it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayJob {
    /// UUIDv7 (D18).
    pub id: Uuid,
    /// The tenant whose deliveries it replays.
    #[serde(skip)]
    pub tenant: TenantId,
    /// Whether it is executed.
    pub state: ReplayJobState,
    /// Deliveries that were selected when it was created; null if there were more than were counted.
    pub matched: Option<i64>,
    /// Deliveries that were replayed so far.
    pub replayed: i64,
    /// Maximum number of deliveries that are replayed in a second.
    pub per_second: i32,
    /// The states of the deliveries: `dead`, `delivered` or both.
    pub states: Vec<String>,
    /// Only deliveries of events of this type.
    pub event_type: Option<String>,
    /// Only deliveries to this subscription.
    pub subscription_id: Option<Uuid>,
    /// Only deliveries of events of this time: `{"from", "to"}`, either of which may be null.
    #[serde(rename = "occurred", serialize_with = "serialize_times")]
    pub ids: Range<Uuid>,
    /// The last delivery that was considered.
    #[serde(skip)]
    pub last_id: Uuid,
    /// When it was created.
    #[serde(serialize_with = "clock::serialize")]
    pub created_at: DateTime<Utc>,
    /// When it was completed or stopped.
    pub ended_at: Option<DateTime<Utc>>,
}

impl ReplayJobState {
    /// Whether nothing of the job remains to be done.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Stopped)
    }
}

impl ReplayJob {
    /// From when and until when the events of its deliveries occurred. A job without an end has the time of its creation.
    pub fn occurred(&self) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
        (limit_time(self.ids.start), limit_time(self.ids.end))
    }
}

/// The time in an id that is the start or end of a range; `None` for the nil or the largest id, which do not limit it.
fn limit_time(id: Uuid) -> Option<DateTime<Utc>> {
    let is_limit = !id.is_nil() && !id.is_max();
    let millis = i64::try_from(id.as_u128() >> 80).ok().filter(|_| is_limit)?;
    DateTime::from_timestamp_millis(millis)
}

fn serialize_times<S: Serializer>(ids: &Range<Uuid>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = |id| limit_time(id).map(clock::to_text);
    serde_json::json!({"from": text(ids.start), "to": text(ids.end)}).serialize(serializer)
}

/// The columns of a job.
macro_rules! columns {
    () => {
        "tenant_id, job_id, states, event_type, subscription_id, first_id, end_id, per_second, state, matched, replayed, last_id,
        created_at, ended_at"
    };
}

/// Counts those that a job replays of a page of a tenant's deliveries, in the order of their ids.
macro_rules! count_page {
    ($label:literal, $condition:literal) => {
        concat!("-- deliveries.", $label, "
    SELECT count(*) AS counted, count(*) FILTER (WHERE d.state = ANY($3::text[]) AND d.subscription_id = ANY($2::uuid[])
            AND ($7::text IS NULL OR o.event_type = $7)) AS matched,
        (array_agg(d.delivery_id ORDER BY d.delivery_id DESC))[1] AS last
    FROM (
        SELECT * FROM deliveries WHERE tenant_id = $1 AND delivery_id > $4 AND delivery_id < $5", $condition, "
        ORDER BY delivery_id LIMIT $6
    ) d
    LEFT JOIN LATERAL (
        SELECT event_type FROM outbox o
        WHERE $7::text IS NOT NULL AND o.tenant_id = $1 AND o.event_id = d.event_id LIMIT 1
    ) o ON true")
    };
}

common::statements! {
    /// Nothing is inserted if the tenant has `$11` jobs that have not ended.
    const CREATE = concat!("-- replay_jobs.create
    INSERT INTO replay_jobs (tenant_id, job_id, states, event_type, subscription_id, first_id, end_id, last_id, per_second,
        state, matched, batch_at, created_at)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, 'running', $10, $12, $12
    WHERE (SELECT count(*) FROM replay_jobs
           WHERE state IN ('running', 'stopping') AND tenant_id IS NOT DISTINCT FROM $1) < $11::bigint
    RETURNING ", columns!());

    const OF_TENANT = concat!("-- replay_jobs.of_tenant
    SELECT ", columns!(), " FROM replay_jobs WHERE tenant_id = $1 ORDER BY job_id DESC LIMIT $2");

    const FIND = concat!("-- replay_jobs.find
    SELECT ", columns!(), " FROM replay_jobs WHERE uuid_send(job_id) = uuid_send($1) LIMIT 1");

    /// The row is found first, because the operator does not name the tenant.
    const STOP = "-- replay_jobs.stop
    UPDATE replay_jobs SET state = CASE state WHEN 'running' THEN 'stopping' ELSE state END
    WHERE tenant_id = $1 AND job_id = $2";

    const LOCK = "-- replay_jobs.lock
    SELECT state FROM replay_jobs WHERE tenant_id = $1 AND job_id = $2 FOR UPDATE";

    const COUNT_PAGE = count_page!("count_to_replay", "");

    /// By an index of its own, because dead-lettered ones are few among the others.
    const COUNT_DEAD_PAGE = count_page!("count_dead_to_replay", " AND state = 'dead'");
}

/// Deliveries of one page.
const COUNTED: i64 = 10_000;

/// A job to be created, which the dispatcher then finds and executes.
#[derive(Debug)]
pub(crate) struct NewReplayJob<'a> {
    pub(crate) id: Uuid,
    pub(crate) tenant: TenantId,
    pub(crate) states: &'a [DeliveryState],
    pub(crate) event_type: Option<&'a str>,
    pub(crate) subscription: Option<Uuid>,
    pub(crate) ids: Range<Uuid>,
    pub(crate) per_second: i32,
    pub(crate) matched: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) subscriptions: &'a [Uuid],
    pub(crate) states: &'a [DeliveryState],
    pub(crate) event_type: Option<&'a str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedPage {
    pub(crate) matched: u64,
    /// The last delivery of the page; `None` if no page follows.
    pub(crate) next: Option<Uuid>,
}

/// Stores a job. `None` if the tenant has `most` that have not ended.
pub(crate) async fn create(tx: &Transaction<'_>, new: &NewReplayJob<'_>, most: i64) -> Result<Option<ReplayJob>> {
    let NewReplayJob { id, tenant, states, event_type, subscription, ids, per_second, matched } = new;
    let (states, now) = (names(states), common::clock::database_now());
    let parameters: super::Parameters<'_> = &[
        &tenant.0,
        id,
        &states,
        event_type,
        subscription,
        &ids.start,
        &ids.end,
        &before(ids.start),
        per_second,
        matched,
        &most,
        &now,
    ];
    one(tx, CREATE, parameters, job).await
}

/// The newest jobs of a tenant.
pub(crate) async fn of_tenant(client: &Client, tenant: TenantId, limit: u32) -> Result<Newest<ReplayJob>> {
    newest_rows(client, OF_TENANT, &[&tenant.0], limit, job).await
}

pub(crate) async fn find(on: &impl GenericClient, id: Uuid) -> Result<Option<ReplayJob>> {
    one(on, FIND, &[&id], job).await
}

/// Stops a job. `false` if it was not running.
pub(crate) async fn stop(tx: &Transaction<'_>, tenant: TenantId, id: Uuid) -> Result<bool> {
    let state = one(tx, LOCK, &[&tenant.0, &id], state).await?;
    if state != Some(ReplayJobState::Running) {
        return Ok(false);
    }
    Ok(execute(tx, STOP, &[&tenant.0, &id]).await? > 0)
}

/// Counts the next page of deliveries with ids after `ids.start` and before `ids.end`.
pub(crate) async fn count_page(client: &Client, counted: Counted<'_>, ids: &Range<Uuid>) -> Result<CountedPage> {
    let Counted { tenant, subscriptions, states, event_type } = counted;
    let page = if states == [DeliveryState::DeadLettered] { COUNT_DEAD_PAGE } else { COUNT_PAGE };
    let states = names(states);
    let parameters: super::Parameters<'_> =
        &[&tenant.0, &subscriptions, &states, &ids.start, &ids.end, &COUNTED, &event_type];
    let row = super::exactly_one(client, page, parameters).await?;
    let read: i64 = row.try_get("counted")?;
    let matched = u64::try_from(row.try_get::<_, i64>("matched")?).unwrap_or_default();
    let last: Option<Uuid> = row.try_get("last")?;
    Ok(CountedPage { matched, next: last.filter(|_| read == COUNTED) })
}

/// The id before `first`, after which a scan finds `first` itself.
pub(crate) const fn before(first: Uuid) -> Uuid {
    Uuid::from_u128(first.as_u128().saturating_sub(1))
}

fn names(states: &[DeliveryState]) -> Vec<&'static str> {
    states.iter().map(|state| state.as_str()).collect()
}

fn state(row: &Row) -> Result<ReplayJobState> {
    let name: &str = row.try_get("state")?;
    let unknown = || AdminError::Unreadable(format!("unknown state of a replay job: {name:?}"));
    ReplayJobState::parse(name).ok_or_else(unknown)
}

fn job(row: &Row) -> Result<ReplayJob> {
    Ok(read_row!(row => ReplayJob {
        tenant = "tenant_id" as TenantId, id = "job_id", state: state(row)?, matched, replayed, per_second,
        states, event_type, subscription_id, ids: row.try_get("first_id")?..row.try_get("end_id")?, last_id,
        created_at, ended_at
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_job_are_times() {
        let at = DateTime::from_timestamp_millis(1_777_629_600_123).unwrap();
        assert_eq!(limit_time(super::super::deliveries::first_id(at)), Some(at));
        assert_eq!((limit_time(Uuid::nil()), limit_time(Uuid::max())), (None, None));
    }
}
