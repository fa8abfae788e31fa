//! Webhook subscriptions, and the attempts of their newest deliveries.

use super::sealed_values::{Columns, SealedRow, SealedValue, count_rewrapped};
use super::{all, execute, exists, newest, one, read_row};
use crate::{Newest, Result};
use chrono::{DateTime, Utc};
use common::clock;
use common::egress::displayable;
use common::model::TenantId;
use common::sealed::{subscription_binding, subscription_url_binding};
use common::settings::Bound;
use serde::Serialize;
use std::collections::HashMap;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Row, Transaction};
use uuid::Uuid;

common::named! {
    /// Whether a subscription receives deliveries. Names are those in JSON.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum SubscriptionState {
        /// Deliveries are sent.
        Active = "active",
        /// Its deliveries wait until it is resumed.
        Paused = "paused",
        /// It never does again.
        Removed = "removed",
    }
}

/// A subscription, without its secret.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// UUIDv7 (D18).
    pub id: Uuid,
    /// URL of the receiver, without the values of its query.
    pub url: String,
    /// Prefix of the receiving system's API key.
    pub key: Option<String>,
    /// Event types to deliver; null for all.
    pub events: Option<Vec<String>>,
    /// Whether it receives deliveries.
    pub state: SubscriptionState,
    /// When it was created.
    #[serde(serialize_with = "clock::serialize")]
    pub created_at: DateTime<Utc>,
}

/// What the attempts of a receiver show, of some time and of some of its newest deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverHealth {
    /// Number of attempts.
    pub attempts: i64,
    /// Attempts with a 2xx response.
    pub succeeded: i64,
    /// How long the median response took, and what 95 % of the responses took at most, in milliseconds; `None` if none came.
    pub response_ms: Option<(i32, i32)>,
    /// When the last failed attempt was made, and why it failed.
    pub last_failure: Option<(DateTime<Utc>, String)>,
}

/// The attempts `a` of the newest deliveries of subscriptions `s`, each since its own time: a bounded number of each. Of a delivery that
/// succeeded at once its row tells the attempt.
macro_rules! attempts {
    () => {
        "    FROM unnest($2::uuid[], $4::timestamptz[]) AS s (subscription_id, since)
    CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT * FROM deliveries d
            WHERE d.subscription_id = s.subscription_id AND d.tenant_id IS NOT DISTINCT FROM $1
            ORDER BY d.number DESC LIMIT $5
        ) d
        WHERE d.delivery_id >= $3
    ) d
    CROSS JOIN LATERAL (
        SELECT d.last_at AS at, d.last_status AS status, d.last_error AS error, d.last_duration_ms AS duration_ms
        WHERE d.attempts = 1 AND d.last_at >= s.since AND d.last_status BETWEEN 200 AND 299
        UNION ALL
        SELECT * FROM (
            SELECT a.at, a.status, a.error, a.duration_ms FROM attempts a
            WHERE a.tenant_id = $1 AND a.delivery_id = d.delivery_id AND a.at >= s.since LIMIT 32768
        ) a
    ) a"
    };
}

common::statements! {
    /// Nothing is inserted if the tenant has `$9` subscriptions, or ten times as many with removed ones. Several that are created at once may exceed it.
    const CREATE = "-- subscriptions.create
    INSERT INTO subscriptions (tenant_id, subscription_id, key_prefix, display_url, event_types, secret_sealed,
        created_at, url_sealed)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8
    WHERE (SELECT greatest(count(*) FILTER (WHERE removed_at IS NULL), count(*) / 10) FROM subscriptions WHERE tenant_id = $1)
        < $9::bigint";

    const LIST = "-- subscriptions.list
    SELECT subscription_id, display_url, key_prefix, event_types, created_at, paused_at, removed_at
    FROM subscriptions WHERE tenant_id = $1 AND removed_at IS NULL AND subscription_id < $2
    ORDER BY subscription_id DESC LIMIT $3";

    const FIND = "-- subscriptions.find
    SELECT subscription_id, display_url, key_prefix, event_types, created_at, paused_at, removed_at
    FROM subscriptions WHERE tenant_id = $1 AND subscription_id = $2 AND removed_at IS NULL";

    const PAUSE = "-- subscriptions.pause
    UPDATE subscriptions SET paused_at = COALESCE(paused_at, $2) WHERE subscription_id = $1 AND removed_at IS NULL
    RETURNING tenant_id, subscription_id, display_url, key_prefix, event_types, created_at, paused_at, removed_at";

    const RESUME = "-- subscriptions.resume
    UPDATE subscriptions SET paused_at = NULL WHERE subscription_id = $1 AND removed_at IS NULL
    RETURNING tenant_id, subscription_id, display_url, key_prefix, event_types, created_at, paused_at, removed_at";

    const REMOVE = "-- subscriptions.remove
    UPDATE subscriptions SET removed_at = $2 WHERE subscription_id = $1 AND removed_at IS NULL
    RETURNING tenant_id, subscription_id, display_url, key_prefix, event_types, created_at, paused_at, removed_at";

    const SET_EVENTS = "-- subscriptions.set_events
    UPDATE subscriptions SET event_types = $2, event_types_changed_at = $3
    WHERE subscription_id = $1 AND removed_at IS NULL
    RETURNING tenant_id, subscription_id, display_url, key_prefix, event_types, created_at, paused_at, removed_at";

    const SET_URL = "-- subscriptions.set_url
    UPDATE subscriptions s SET display_url = $2, url_sealed = $3
    FROM (SELECT display_url AS was FROM subscriptions WHERE subscription_id = $1 LIMIT 1 FOR UPDATE) old
    WHERE s.subscription_id = $1 AND s.removed_at IS NULL
    RETURNING s.tenant_id, s.subscription_id, s.display_url, s.key_prefix, s.event_types, s.created_at, s.paused_at,
        s.removed_at, old.was";

    const SLUG = "-- subscriptions.slug
    SELECT s.tenant_id, t.slug, s.paused_at IS NOT NULL
    FROM subscriptions s
    CROSS JOIN LATERAL (SELECT slug FROM tenants t WHERE t.tenant_id = s.tenant_id LIMIT 1) t
    WHERE s.subscription_id = $1 AND s.removed_at IS NULL";

    const REMOVED = "-- subscriptions.removed
    SELECT tenant_id, subscription_id, display_url, key_prefix, event_types, created_at, paused_at, removed_at
    FROM subscriptions WHERE subscription_id = $1 AND removed_at IS NOT NULL";

    const IS_KNOWN = "-- subscriptions.is_known
    SELECT FROM subscriptions WHERE subscription_id = $1";

    const EXISTS = "-- subscriptions.exists
    SELECT FROM subscriptions WHERE tenant_id = $1 AND subscription_id = $2";

    const TENANT = "-- subscriptions.tenant
    SELECT tenant_id FROM subscriptions WHERE subscription_id = $1 AND removed_at IS NULL";

    /// Without an overlap the old secret is deleted. One that is of use is replaced only if `$5` allows it.
    const ROTATE_SECRET = "-- subscriptions.rotate_secret
    UPDATE subscriptions SET
        old_secret_sealed = CASE WHEN $3::timestamptz IS NULL THEN NULL ELSE secret_sealed END,
        old_secret_until = $3,
        secret_sealed = $2
    WHERE subscription_id = $1 AND removed_at IS NULL AND ($5 OR old_secret_until IS NULL OR old_secret_until <= $4)";

    const OVERLAP = "-- subscriptions.overlap
    SELECT old_secret_until FROM subscriptions
    WHERE subscription_id = $1 AND removed_at IS NULL AND old_secret_until IS NOT NULL";

    /// `$3` is the header of values that are sealed under the current master key.
    const TO_REWRAP = "-- subscriptions.to_rewrap
    SELECT tenant_id, subscription_id, secret_sealed, old_secret_sealed, url_sealed FROM subscriptions
    WHERE (tenant_id, subscription_id) > ($1, $2)
      AND (substring(secret_sealed FROM 1 FOR 8) <> $3 OR substring(old_secret_sealed FROM 1 FOR 8) <> $3
           OR substring(url_sealed FROM 1 FOR 8) <> $3)
    ORDER BY tenant_id, subscription_id LIMIT 100";

    /// Skips rows that were changed meanwhile.
    const REWRAP = "-- subscriptions.rewrap
    UPDATE subscriptions s SET secret_sealed = w.secret, old_secret_sealed = w.old, url_sealed = w.url
    FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[])
        AS w (tenant_id, subscription_id, secret_was, secret, old_was, old, url_was, url)
    WHERE s.tenant_id = w.tenant_id AND s.subscription_id = w.subscription_id AND s.secret_sealed = w.secret_was
      AND s.old_secret_sealed IS NOT DISTINCT FROM w.old_was AND s.url_sealed = w.url_was
    RETURNING (w.secret <> w.secret_was)::int + coalesce((w.old <> w.old_was)::int, 0) + (w.url <> w.url_was)::int";

    const HEALTH = concat!("-- attempts.health
    SELECT s.subscription_id, count(*) AS attempts, count(*) FILTER (WHERE a.status BETWEEN 200 AND 299) AS succeeded,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY a.duration_ms) FILTER (WHERE a.status IS NOT NULL) AS median_ms,
        percentile_disc(0.95) WITHIN GROUP (ORDER BY a.duration_ms) FILTER (WHERE a.status IS NOT NULL) AS slow_ms,
        max(a.at) FILTER (WHERE a.status IS NULL OR a.status NOT BETWEEN 200 AND 299) AS failed_at,
        (array_agg(concat_ws(', ', 'status ' || a.status, a.error) ORDER BY a.at DESC)
            FILTER (WHERE a.status IS NULL OR a.status NOT BETWEEN 200 AND 299))[1] AS failure
", attempts!(), "
    GROUP BY s.subscription_id");

    const HOURS = concat!("-- attempts.hours
    SELECT floor(extract(epoch FROM a.at) / 3600)::bigint AS hour,
        count(*) FILTER (WHERE a.status BETWEEN 200 AND 299) AS succeeded, count(*) AS attempts
", attempts!(), "
    GROUP BY 1");
}

/// A new subscription. Its URL is stored sealed, and without the values of its query.
pub(crate) struct SubscriptionRow<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) id: Uuid,
    pub(crate) key: Option<&'a str>,
    pub(crate) url: &'a str,
    pub(crate) events: Option<&'a [&'static str]>,
    pub(crate) secret_sealed: &'a [u8],
    pub(crate) url_sealed: &'a [u8],
}

/// Creates a subscription. `false` if the tenant has as many as `bound` allows.
pub(crate) async fn create(tx: &Transaction<'_>, row: &SubscriptionRow<'_>, bound: Bound) -> Result<bool> {
    let SubscriptionRow { tenant, id, key, url, events, secret_sealed, url_sealed } = row;
    let shown = displayable(url);
    let most = i64::from(bound.most);
    let parameters: [&(dyn ToSql + Sync); 9] =
        [&tenant.0, id, key, &shown, events, secret_sealed, &clock::database_now(), url_sealed, &most];
    Ok(execute(tx, CREATE, &parameters).await? == 1)
}

/// The newest subscriptions of a tenant, those before an id.
pub(crate) async fn list(
    client: &Client, tenant: TenantId, before: Option<Uuid>, limit: u32,
) -> Result<Newest<Subscription>> {
    newest(client, LIST, &[&tenant.0, &before.unwrap_or(Uuid::max())], limit, subscription).await
}

/// A subscription of a tenant that is not removed.
pub(crate) async fn find(client: &Client, tenant: TenantId, id: Uuid) -> Result<Option<Subscription>> {
    one(client, FIND, &[&tenant.0, &id], subscription).await
}

pub(crate) async fn pause(tx: &Transaction<'_>, id: Uuid) -> Result<Option<(TenantId, Subscription)>> {
    one(tx, PAUSE, &[&id, &clock::database_now()], tenant_and_subscription).await
}

pub(crate) async fn resume(tx: &Transaction<'_>, id: Uuid) -> Result<Option<(TenantId, Subscription)>> {
    one(tx, RESUME, &[&id], tenant_and_subscription).await
}

/// Marks a subscription as removed; `None` if it is removed already or does not exist.
pub(crate) async fn remove(
    tx: &Transaction<'_>, id: Uuid, now: DateTime<Utc>,
) -> Result<Option<(TenantId, Subscription)>> {
    one(tx, REMOVE, &[&id, &now], tenant_and_subscription).await
}

/// Replaces the event types; `None` stands for all.
pub(crate) async fn set_events(
    tx: &Transaction<'_>, id: Uuid, events: Option<&[&str]>,
) -> Result<Option<(TenantId, Subscription)>> {
    one(tx, SET_EVENTS, &[&id, &events, &clock::database_now()], tenant_and_subscription).await
}

/// Replaces the URL of the receiver, which is stored sealed, and without the values of its query. Returns the one before as well.
pub(crate) async fn set_url(
    tx: &Transaction<'_>, id: Uuid, url: &str, sealed: &[u8],
) -> Result<Option<(TenantId, Subscription, String)>> {
    let read = |row: &Row| Ok((TenantId(row.try_get("tenant_id")?), subscription(row)?, row.try_get("was")?));
    one(tx, SET_URL, &[&id, &displayable(url), &sealed], read).await
}

/// The tenant with its slug, and whether the subscription is paused, of one that is not removed.
pub(crate) async fn slug(tx: &Transaction<'_>, id: Uuid) -> Result<Option<(TenantId, String, bool)>> {
    let read = |row: &Row| Ok((TenantId(row.try_get(0)?), row.try_get(1)?, row.try_get(2)?));
    one(tx, SLUG, &[&id], read).await
}

/// The tenant and subscription of a removed subscription.
pub(crate) async fn removed(tx: &Transaction<'_>, id: Uuid) -> Result<Option<(TenantId, Subscription)>> {
    one(tx, REMOVED, &[&id], tenant_and_subscription).await
}

/// Whether there is such a subscription, removed ones included.
pub(crate) async fn is_known(on: &impl GenericClient, id: Uuid) -> Result<bool> {
    exists(on, IS_KNOWN, &[&id]).await
}

/// Whether the tenant has such a subscription, removed ones included.
pub(crate) async fn is_of_tenant(client: &Client, tenant: TenantId, id: Uuid) -> Result<bool> {
    exists(client, EXISTS, &[&tenant.0, &id]).await
}

/// The tenant of a subscription that is not removed.
pub(crate) async fn tenant(on: &impl GenericClient, id: Uuid) -> Result<Option<TenantId>> {
    one(on, TENANT, &[&id], |row| Ok(TenantId(row.try_get("tenant_id")?))).await
}

/// Replaces the secret, and keeps the old one until `until`. `false` if the subscription was removed meanwhile, or if an overlap runs
/// that must not be replaced.
pub(crate) async fn rotate_secret(
    tx: &Transaction<'_>, id: Uuid, sealed: &[u8], (until, replace): (Option<DateTime<Utc>>, bool), now: DateTime<Utc>,
) -> Result<bool> {
    Ok(execute(tx, ROTATE_SECRET, &[&id, &sealed, &until, &now, &replace]).await? > 0)
}

/// When the old secret of a subscription that is not removed ends.
pub(crate) async fn overlap(on: &impl GenericClient, id: Uuid) -> Result<Option<DateTime<Utc>>> {
    one(on, OVERLAP, &[&id], |row| Ok(row.try_get("old_secret_until")?)).await
}

/// The next subscriptions after `after`, removed ones included, of which a value is not sealed under the master key of `header`.
pub(crate) async fn page_to_rewrap(
    client: &Client, (tenant, id): (TenantId, Uuid), header: &[u8],
) -> Result<Vec<SealedRow>> {
    let read = |row: &Row| {
        let (tenant, id): (_, Uuid) = (TenantId(row.try_get("tenant_id")?), row.try_get("subscription_id")?);
        let binding = subscription_binding(tenant, id);
        let values = vec![
            SealedValue::stored(binding.clone(), Some(row.try_get("secret_sealed")?)),
            SealedValue::stored(binding, row.try_get("old_secret_sealed")?),
            SealedValue::stored(subscription_url_binding(tenant, id), Some(row.try_get("url_sealed")?)),
        ];
        Ok(SealedRow { tenant, name: id.to_string(), values })
    };
    all(client, TO_REWRAP, &[&tenant.0, &id, &header], read).await
}

/// Replaces sealed values, and returns how many.
pub(crate) async fn rewrap(tx: &Transaction<'_>, rows: &[SealedRow]) -> Result<u64> {
    let tenants: Vec<_> = rows.iter().map(|row| row.tenant.0).collect();
    let ids: Vec<_> = rows.iter().map(|row| Uuid::try_parse(&row.name).unwrap_or_default()).collect();
    let [secrets, old, urls] = [0, 1, 2].map(|column| Columns::of(rows, column));
    let parameters: [&(dyn ToSql + Sync); 8] =
        [&tenants, &ids, &secrets.was, &secrets.now, &old.was, &old.now, &urls.was, &urls.now];
    count_rewrapped(tx, REWRAP, &parameters).await
}

/// The health of receivers, by attempts since a time of each on at most `most` deliveries with ids from the given one on.
pub(crate) async fn health(
    client: &Client, tenant: TenantId, (subscriptions, since): (&[Uuid], &[DateTime<Utc>]), first_id: Uuid, most: i64,
) -> Result<HashMap<Uuid, ReceiverHealth>> {
    let parameters: super::Parameters<'_> = &[&tenant.0, &subscriptions, &first_id, &since, &most];
    let read = |row: &Row| {
        let (at, why): (Option<DateTime<Utc>>, Option<String>) = (row.try_get("failed_at")?, row.try_get("failure")?);
        let (median, slow): (Option<i32>, Option<i32>) = (row.try_get("median_ms")?, row.try_get("slow_ms")?);
        let health = read_row!(row => ReceiverHealth {
            attempts, succeeded, response_ms: median.zip(slow), last_failure: at.zip(why)
        });
        Ok((row.try_get("subscription_id")?, health))
    };
    Ok(all(client, HEALTH, parameters, read).await?.into_iter().collect())
}

/// The attempts of one receiver by hour since 1970: how many succeeded, and how many there were. Parameters are those of [`health`].
pub(crate) async fn hours(
    client: &Client, tenant: TenantId, (subscription, since): (Uuid, DateTime<Utc>), first_id: Uuid, most: i64,
) -> Result<HashMap<i64, (i64, i64)>> {
    let (ids, times) = ([subscription], [since]);
    let parameters: super::Parameters<'_> = &[&tenant.0, &ids.as_slice(), &first_id, &times.as_slice(), &most];
    let read = |row: &Row| Ok((row.try_get("hour")?, (row.try_get("succeeded")?, row.try_get("attempts")?)));
    Ok(all(client, HOURS, parameters, read).await?.into_iter().collect())
}

fn id(row: &Row) -> Result<Uuid> {
    Ok(row.try_get("subscription_id")?)
}

fn tenant_and_subscription(row: &Row) -> Result<(TenantId, Subscription)> {
    Ok((TenantId(row.try_get("tenant_id")?), subscription(row)?))
}

fn subscription(row: &Row) -> Result<Subscription> {
    let removed: Option<DateTime<Utc>> = row.try_get("removed_at")?;
    let paused: Option<DateTime<Utc>> = row.try_get("paused_at")?;
    let state = match (removed, paused) {
        (Some(_), _) => SubscriptionState::Removed,
        (None, Some(_)) => SubscriptionState::Paused,
        (None, None) => SubscriptionState::Active,
    };
    Ok(read_row!(row => Subscription {
        id: id(row)?, url = "display_url", key = "key_prefix", events = "event_types", state: state,
        created_at
    }))
}
