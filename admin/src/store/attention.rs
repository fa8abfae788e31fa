//! What the overviews need beside counts: failures by cause, refusals by key, programs that run, and what agencies were told by mail.

use super::{all, exactly_one, execute, read_row};
use crate::Result;
use chrono::{DateTime, Utc};
use common::db::column;
use common::model::TenantId;
use tokio_postgres::{Client, Row, Transaction};
use uuid::Uuid;

/// What failed for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureCause {
    /// Kind and name, such as `event:contact_not_found`.
    pub(crate) cause: String,
    pub(crate) failed: i64,
    pub(crate) succeeded: i64,
    /// Of a receiver, the failures on record since its last success, however long ago.
    pub(crate) failed_in_a_row: i64,
    /// Of a receiver, why the last attempt failed; of an event, `KEY, request ID` of the last one.
    pub(crate) last_error: Option<String>,
}

/// Recorded requests of a key that were refused for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusalCause {
    pub(crate) key_prefix: String,
    pub(crate) reason: String,
    pub(crate) status: i32,
    /// That of the latest one with a detail.
    pub(crate) detail: Option<String>,
    pub(crate) requests: i64,
    /// None was refused in the last three minutes.
    pub(crate) is_over: bool,
}

/// Which programs work with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningPrograms {
    pub(crate) ingest: bool,
    pub(crate) worker: bool,
    /// Slots that dispatchers hold.
    pub(crate) slots: i64,
    /// The server has just started, so that programs may still be connecting.
    pub(crate) may_connect: bool,
}

/// An agency that gets mails about what needs its attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailRecipient {
    /// The tenant.
    pub tenant: TenantId,
    /// Its slug.
    pub slug: String,
    /// Its address.
    pub email: String,
}

/// Something that an agency is to be told by mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionNews {
    /// A name that stays the same as long as it lasts.
    pub cause: String,
    /// What is wrong, or was wrong at the last mail.
    pub text: String,
    /// Whether it has recovered.
    pub has_recovered: bool,
}

common::statements! {
    /// A cause is over after three minutes without a failure. Of a receiver also older minutes are of interest, because it may be attempted
    /// seldom: it still fails if its newest minute has more failures than successes, because what fails is retried.
    const FAILURES = "-- failure_minutes.since
    SELECT f.cause, coalesce(sum(f.failed) FILTER (WHERE f.minute >= $2), 0)::bigint AS failed,
           coalesce(sum(f.succeeded) FILTER (WHERE f.minute >= $2), 0)::bigint AS succeeded,
           coalesce(sum(f.failed) FILTER (WHERE f.is_after_success), 0)::bigint AS failed_in_a_row,
           (array_agg(f.last_error ORDER BY f.minute DESC) FILTER (WHERE f.last_error IS NOT NULL))[1] AS last_error
    FROM (SELECT cause, minute, failed, succeeded, last_error,
                 minute > coalesce(max(minute) FILTER (WHERE succeeded > 0) OVER (PARTITION BY cause), '-infinity')
                     AS is_after_success, minute = max(minute) OVER (PARTITION BY cause) AS is_newest
          FROM failure_minutes WHERE tenant_id = $1 AND (minute >= $2 OR cause LIKE 'receiver:%')) AS f
    GROUP BY f.cause HAVING bool_or(f.failed > 0 AND (f.minute > now() - interval '3 minutes'
        OR f.cause LIKE 'receiver:%' AND f.is_newest AND f.failed > f.succeeded))
    ORDER BY failed DESC, f.cause";

    const REFUSALS = "-- refused_requests.since
    SELECT r.key_prefix, r.reason, max(r.status) AS status, count(*) AS requests,
           (array_agg(r.detail ORDER BY r.request_id DESC) FILTER (WHERE r.detail IS NOT NULL))[1] AS detail,
           max(r.at) <= now() - interval '3 minutes' AS is_over
    FROM (SELECT request_id, key_prefix, at, status, reason, detail FROM refused_requests r
          WHERE r.tenant_id = $1 AND r.request_id >= $2 AND r.status < 500 AND NOT r.dry_run
          ORDER BY r.request_id DESC LIMIT 2000) AS r
    GROUP BY r.key_prefix, r.reason ORDER BY requests DESC, r.key_prefix, r.reason";

    const REFUSED_STATUSES = "-- refused_requests.statuses
    SELECT status, count(*) AS requests
    FROM (SELECT status FROM refused_requests
          WHERE at >= $1 AND status < 500 AND NOT dry_run ORDER BY at DESC LIMIT 2000) AS r
    GROUP BY status ORDER BY requests DESC, status";

    /// The names of sessions are those that ingest and the worker have past a connection pooler.
    const RUNNING = "-- programs.running
    SELECT EXISTS (SELECT FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name LIKE 'ingest%') AS ingest,
           EXISTS (SELECT FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = 'worker') AS worker,
           (SELECT count(*) FROM dispatcher_slots
            WHERE leased_until BETWEEN now() - interval '10 s' AND now() + interval '10 s') AS slots,
           pg_postmaster_start_time() > now() - interval '10 s' AS may_connect";

    const RECIPIENTS = "-- tenants.attention_emails
    SELECT tenant_id, slug, attention_email FROM tenants
    WHERE tenant_id > $1 AND attention_email IS NOT NULL ORDER BY tenant_id LIMIT $2";

    /// Claims what `$2` has, if `$4` says so, and the last mail did not say; and what the last mail said and `$2` has not: of each
    /// cause at most once an hour. A receiver has recovered only if an attempt of its newest minute succeeded. A claim that is not confirmed ends after a minute.
    const CLAIM = "-- attention_mails.claim
    WITH begun AS (
        INSERT INTO attention_mails AS m (tenant_id, cause, text, claimed_until)
        SELECT $1, new.cause, new.text, now() + interval '1 minute'
        FROM unnest($2::text[], $3::text[], $4::boolean[]) AS new (cause, text, is_mailed)
        WHERE new.is_mailed ORDER BY new.cause
        ON CONFLICT (tenant_id, cause) DO UPDATE SET text = excluded.text, claimed_until = excluded.claimed_until
        WHERE NOT m.is_open AND m.told_at <= now() - interval '1 hour' AND m.claimed_until <= now()
        RETURNING m.cause, m.text, false AS has_recovered
    ), recovered AS (
        UPDATE attention_mails m SET claimed_until = now() + interval '1 minute'
        WHERE m.tenant_id = $1 AND m.is_open AND m.cause <> ALL($2)
          AND (m.cause NOT LIKE 'receiver:%' OR (
              SELECT f.succeeded > 0 FROM failure_minutes f WHERE f.tenant_id = $1 AND f.cause = m.cause
              ORDER BY f.minute DESC LIMIT 1))
          AND m.told_at <= now() - interval '1 hour' AND m.claimed_until <= now()
        RETURNING m.cause, m.text, true AS has_recovered
    ), forgotten AS (
        DELETE FROM attention_mails m
        WHERE m.tenant_id = $1 AND NOT m.is_open AND m.cause <> ALL($2)
          AND m.told_at <= now() - interval '1 hour' AND m.claimed_until <= now()
    )
    SELECT cause, text, has_recovered FROM begun UNION ALL SELECT cause, text, has_recovered FROM recovered";

    const CONFIRM = "-- attention_mails.confirm
    UPDATE attention_mails m SET is_open = NOT told.has_recovered, told_at = now(), claimed_until = now()
    FROM unnest($2::text[], $3::boolean[]) AS told (cause, has_recovered)
    WHERE m.tenant_id = $1 AND m.cause = told.cause";

    const POSTPONE = "-- attention_mails.postpone
    UPDATE attention_mails SET claimed_until = now() + interval '1 hour' WHERE tenant_id = $1 AND cause = ANY($2)";

    const FORGET_FAILURES = "-- failure_minutes.forget
    DELETE FROM failure_minutes WHERE tenant_id = $1 AND cause = 'receiver:' || $2::uuid";

    const FORGET_MAIL = "-- attention_mails.forget
    DELETE FROM attention_mails WHERE tenant_id = $1 AND cause = 'receiver:' || $2::uuid";
}

/// What failed since a time of a tenant, or of all of them for the nil UUID, and receivers that have failed since before; what failed most comes first.
pub(crate) async fn failures(client: &Client, tenant: Uuid, since: DateTime<Utc>) -> Result<Vec<FailureCause>> {
    let read = |row: &Row| Ok(read_row!(row => FailureCause { cause, failed, succeeded, failed_in_a_row, last_error }));
    all(client, FAILURES, &[&tenant, &since], read).await
}

/// The recorded refusals from a request id on without dry runs, at most 2,000; the most frequent reason comes first.
pub(crate) async fn refusals(client: &Client, tenant: TenantId, first: Uuid) -> Result<Vec<RefusalCause>> {
    let read = |row: &Row| Ok(read_row!(row => RefusalCause { key_prefix, reason, status, detail, requests, is_over }));
    all(client, REFUSALS, &[&tenant.0, &first], read).await
}

/// How many recorded requests of all agencies were refused since a time with each status, of the latest 2,000.
pub(crate) async fn refused_statuses(client: &Client, since: DateTime<Utc>) -> Result<Vec<(i32, i64)>> {
    let read = |row: &Row| Ok((row.try_get("status")?, row.try_get("requests")?));
    all(client, REFUSED_STATUSES, &[&since], read).await
}

pub(crate) async fn running_programs(client: &Client) -> Result<RunningPrograms> {
    let row = exactly_one(client, RUNNING, &[]).await?;
    Ok(read_row!(row => RunningPrograms { ingest, worker, slots, may_connect }))
}

/// The first `limit` agencies with an address after a tenant.
pub async fn mail_recipients(client: &Client, after: Uuid, limit: i64) -> Result<Vec<MailRecipient>> {
    let read = |row: &Row| {
        Ok(read_row!(row => MailRecipient { tenant = "tenant_id" as TenantId, slug, email = "attention_email" }))
    };
    all(client, RECIPIENTS, &[&after, &limit], read).await
}

/// Claims what is to be told of these causes, each with its text and whether it is mailed, and of those that are not among them any
/// more.
pub(crate) async fn claim(
    client: &Client, tenant: TenantId, (causes, texts, are_mailed): (&[&str], &[String], &[bool]),
) -> Result<Vec<AttentionNews>> {
    let read = |row: &Row| Ok(read_row!(row => AttentionNews { cause, text, has_recovered }));
    all(client, CLAIM, &[&tenant.0, &causes, &texts, &are_mailed], read).await
}

/// Notes that what was claimed was told.
pub async fn confirm_news(client: &Client, tenant: TenantId, news: &[AttentionNews]) -> Result<()> {
    let causes = column(news, |one| one.cause.as_str());
    let have_recovered = column(news, |one| one.has_recovered);
    execute(client, CONFIRM, &[&tenant.0, &causes, &have_recovered]).await?;
    Ok(())
}

/// Keeps what was claimed for an hour: its mail was refused for good.
pub async fn postpone_news(client: &Client, tenant: TenantId, news: &[AttentionNews]) -> Result<()> {
    let causes = column(news, |one| one.cause.as_str());
    execute(client, POSTPONE, &[&tenant.0, &causes]).await?;
    Ok(())
}

/// Removes the counts of a subscription's attempts.
pub(crate) async fn forget_failures(tx: &Transaction<'_>, tenant: TenantId, subscription: Uuid) -> Result<u64> {
    execute(tx, FORGET_FAILURES, &[&tenant.0, &subscription]).await
}

/// Removes what was told by mail of a subscription's receiver.
pub(crate) async fn forget_mail(tx: &Transaction<'_>, tenant: TenantId, subscription: Uuid) -> Result<u64> {
    execute(tx, FORGET_MAIL, &[&tenant.0, &subscription]).await
}
