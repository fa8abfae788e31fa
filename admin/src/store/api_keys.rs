//! API keys, and when their secrets were last used.

use super::sealed_values::{Columns, SealedRow, SealedValue, count_rewrapped};
use super::{all, execute, exists, newest, one, read_row};
use crate::input::{KeyScopes, Name, Origin};
use crate::{Newest, Result};
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::model::TenantId;
use common::sealed::api_key_binding;
use common::settings::Bound;
use serde::Serialize;
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

/// A secret that was not used for this long is safe to revoke.
const UNUSED_FOR: TimeDelta = TimeDelta::days(7);

/// The last use of a secret.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretUse {
    /// Whether it is the current secret, not the one before it.
    pub current: bool,
    /// RFC 3339, UTC, with an error of about a minute; null if it was never used.
    pub last_used_at: Option<String>,
    /// The end of the overlap for an old secret, RFC 3339, UTC; null for the current one.
    pub valid_until: Option<String>,
    /// Whether it was not used for seven days.
    pub safe_to_revoke: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct UseRow {
    pub(crate) last_used_at: Option<DateTime<Utc>>,
    /// Since when the secret exists.
    pub(crate) usable_since: DateTime<Utc>,
}

impl UseRow {
    /// Whether the secret was not used for [`UNUSED_FOR`]; never of one that is newer.
    pub(crate) fn is_safe_to_revoke(self, now: DateTime<Utc>) -> bool {
        let last = self.last_used_at.map_or(self.usable_since, |at| at.max(self.usable_since));
        now.signed_duration_since(last) >= UNUSED_FOR
    }

    /// The use of the current secret, or of the one before it, which is valid until a time.
    pub(crate) fn of_secret(self, valid_until: Option<DateTime<Utc>>, now: DateTime<Utc>) -> SecretUse {
        SecretUse {
            current: valid_until.is_none(),
            last_used_at: self.last_used_at.map(clock::to_text),
            valid_until: valid_until.map(clock::to_text),
            safe_to_revoke: self.is_safe_to_revoke(now),
        }
    }
}

/// An API key to be created.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Slug of the tenant.
    pub tenant: String,
    /// What the key is for.
    pub name: Name,
    /// What the key permits.
    pub scopes: KeyScopes,
    /// The emitting system that uses the key: outbound events of this origin are not sent to it.
    pub origin: Option<Origin>,
    /// How long the key is valid; `None` for no limit.
    pub expires_in: Option<Duration>,
}

/// An API key, without its secret.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// The key's public name.
    pub prefix: String,
    /// What the key is for.
    pub name: String,
    /// What the key permits.
    pub scopes: Vec<String>,
    /// The emitting system that uses the key.
    pub origin: Option<String>,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// RFC 3339, UTC; null for no limit.
    pub expires_at: Option<String>,
    /// RFC 3339, UTC; null while the key is not revoked.
    pub revoked_at: Option<String>,
    /// When any secret of the key was last used, RFC 3339, UTC, with an error of about a minute; null if it was never
    /// used.
    pub last_used_at: Option<String>,
    /// Whether the key is not revoked and was not used for seven days.
    pub safe_to_revoke: bool,
    /// Requests with the key in the last 24 hours, by whole hours.
    pub requests_last_day: RequestCounts,
    /// The current secret, and during an overlap the one before it.
    pub secrets: Vec<SecretUse>,
}

/// Numbers of requests that named a key.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RequestCounts {
    /// With valid credentials, and not refused.
    pub accepted: i64,
    /// Refused with a status from 400 to 499, except those that describe the state of a record: 404, 409 and 412.
    pub refused: i64,
}

pub(crate) struct KeyRow<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) sealed: &'a [u8],
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
}

/// The columns of a key that a check needs.
pub(crate) struct SealedKey {
    pub(crate) tenant: TenantId,
    pub(crate) revoked_at: Option<DateTime<Utc>>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) secret: Vec<u8>,
    pub(crate) old_secret: Option<(Vec<u8>, DateTime<Utc>)>,
}

/// The columns of a key, with the last use of its current secret, of the one before it, and of any of its secrets, and the
/// requests of the last 24 hours, by whole hours. Their time is compared as a number, so that only the primary key can find them.
macro_rules! key_columns {
    ($keys:literal) => {
        concat!("SELECT k.prefix, k.name, k.scopes, k.origin, k.created_at, k.expires_at, k.revoked_at, k.secret_created_at,
       k.old_secret_until, used.current, used.old, used.any,
       day.accepted, day.refused
FROM (SELECT * FROM api_keys k WHERE ", $keys, ") AS k
CROSS JOIN LATERAL (
    SELECT max(last_used_at) FILTER (WHERE u.secret_number = k.secret_number) AS current,
           max(last_used_at) FILTER (WHERE u.secret_number = k.secret_number - 1) AS old,
           max(last_used_at) AS any
    FROM api_key_uses u WHERE u.tenant_id = k.tenant_id AND u.prefix = k.prefix) AS used
CROSS JOIN LATERAL (
    SELECT coalesce(sum(r.accepted), 0)::bigint AS accepted, coalesce(sum(r.refused), 0)::bigint AS refused
    FROM api_key_requests r
    WHERE r.tenant_id = k.tenant_id AND r.prefix = k.prefix
      AND extract(epoch FROM r.hour) > extract(epoch FROM now()) - 86400) AS day
ORDER BY k.created_at DESC, k.prefix DESC")
    };
}

common::statements! {
    /// Nothing is inserted if the tenant has `$9` keys that are not revoked, or ten times as many with revoked ones. Several that are created at once may exceed it.
    const CREATE = "-- api_keys.create
    INSERT INTO api_keys (tenant_id, prefix, name, secret_sealed, scopes, origin, created_at, expires_at)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8
    WHERE (SELECT greatest(count(*) FILTER (WHERE revoked_at IS NULL), count(*) / 10) FROM api_keys WHERE tenant_id = $1)
        < $9::bigint";

    const SET_SCOPES = "-- api_keys.set_scopes
    UPDATE api_keys SET scopes = $2 WHERE prefix = $1 AND revoked_at IS NULL RETURNING tenant_id";

    const IS_REVOKED = "-- api_keys.is_revoked
    SELECT FROM api_keys WHERE prefix = $1 AND revoked_at IS NOT NULL";

    const IS_ACTIVE = "-- api_keys.is_active
    SELECT FROM api_keys
    WHERE tenant_id = $1 AND prefix = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)";

    const REVOKE = "-- api_keys.revoke
    UPDATE api_keys SET revoked_at = COALESCE(revoked_at, $2) WHERE prefix = $1 RETURNING tenant_id";

    const TENANT = "-- api_keys.tenant
    SELECT tenant_id FROM api_keys WHERE prefix = $1";

    const SEALED = "-- api_keys.sealed
    SELECT tenant_id, revoked_at, expires_at, secret_sealed, old_secret_sealed, old_secret_until
    FROM api_keys WHERE prefix = $1";

    /// Without an overlap the old secret is deleted. One that is accepted is replaced only if `$5` allows it.
    const ROTATE_SECRET = "-- api_keys.rotate_secret
    UPDATE api_keys SET
        old_secret_sealed = CASE WHEN $3::timestamptz IS NULL THEN NULL ELSE secret_sealed END,
        old_secret_until = $3,
        secret_sealed = $2,
        secret_number = secret_number + 1,
        secret_created_at = $4
    WHERE prefix = $1 AND revoked_at IS NULL AND ($5 OR old_secret_until IS NULL OR old_secret_until <= $4)";

    const OVERLAP = "-- api_keys.overlap
    SELECT old_secret_until FROM api_keys
    WHERE prefix = $1 AND revoked_at IS NULL AND old_secret_until IS NOT NULL";

    const END_OVERLAP = "-- api_keys.end_overlap
    UPDATE api_keys SET old_secret_sealed = NULL, old_secret_until = NULL WHERE prefix = $1 RETURNING tenant_id";

    const FIND = concat!("-- api_keys.find_with_uses\n", key_columns!("k.prefix = $1"));

    const LIST = concat!("-- api_keys.list\n", key_columns!("k.tenant_id = $1
        AND (k.revoked_at IS NOT NULL) = COALESCE($2, k.revoked_at IS NOT NULL)
        AND (k.created_at, k.prefix) < (COALESCE((SELECT b.created_at FROM api_keys b WHERE b.tenant_id = $1 AND b.prefix = $3), 'infinity'), $3)
    ORDER BY k.created_at DESC, k.prefix DESC LIMIT $4"));

    /// `$3` is the header of values that are sealed under the current master key.
    const TO_REWRAP = "-- api_keys.to_rewrap
    SELECT tenant_id, prefix, secret_sealed, old_secret_sealed FROM api_keys
    WHERE (tenant_id, prefix) > ($1, $2)
      AND (substring(secret_sealed FROM 1 FOR 8) <> $3 OR substring(old_secret_sealed FROM 1 FOR 8) <> $3)
    ORDER BY tenant_id, prefix LIMIT 100";

    /// Skips rows that were changed meanwhile.
    const REWRAP = "-- api_keys.rewrap
    UPDATE api_keys k SET secret_sealed = w.secret, old_secret_sealed = w.old
    FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[])
        AS w (tenant_id, prefix, secret_was, secret, old_was, old)
    WHERE k.tenant_id = w.tenant_id AND k.prefix = w.prefix
      AND k.secret_sealed = w.secret_was AND k.old_secret_sealed IS NOT DISTINCT FROM w.old_was
    RETURNING (w.secret <> w.secret_was)::int + coalesce((w.old <> w.old_was)::int, 0)";
}

/// Creates a key. `false` if the tenant has as many as `bound` allows.
pub(crate) async fn create(
    tx: &Transaction<'_>, tenant: TenantId, new: &NewKey, row: &KeyRow<'_>, bound: Bound,
) -> Result<bool> {
    let (name, scopes) = (new.name.as_str(), new.scopes.names());
    let origin = new.origin.as_ref().map(Origin::as_str);
    let KeyRow { prefix, sealed, created_at, expires_at } = row;
    let most = i64::from(bound.most);
    let parameters: [&(dyn ToSql + Sync); 9] =
        [&tenant.0, prefix, &name, sealed, &scopes, &origin, created_at, expires_at, &most];
    Ok(execute(tx, CREATE, &parameters).await? == 1)
}

pub(crate) async fn is_revoked(tx: &Transaction<'_>, prefix: &str) -> Result<bool> {
    exists(tx, IS_REVOKED, &[&prefix]).await
}

/// Whether the tenant has such a key that is neither revoked nor expired.
pub(crate) async fn is_active(client: &Client, tenant: TenantId, prefix: &str) -> Result<bool> {
    exists(client, IS_ACTIVE, &[&tenant.0, &prefix, &clock::database_now()]).await
}

/// The tenant of the key; `None` if no key that is not revoked has the prefix.
pub(crate) async fn set_scopes(tx: &Transaction<'_>, prefix: &str, scopes: &KeyScopes) -> Result<Option<TenantId>> {
    one(tx, SET_SCOPES, &[&prefix, &scopes.names()], tenant_id).await
}

/// The tenant of the key; `None` if no key has the prefix.
pub(crate) async fn revoke(tx: &Transaction<'_>, prefix: &str) -> Result<Option<TenantId>> {
    one(tx, REVOKE, &[&prefix, &clock::database_now()], tenant_id).await
}

pub(crate) async fn tenant(on: &impl GenericClient, prefix: &str) -> Result<Option<TenantId>> {
    one(on, TENANT, &[&prefix], tenant_id).await
}

pub(crate) async fn sealed(client: &Client, prefix: &str) -> Result<Option<SealedKey>> {
    one(client, SEALED, &[&prefix], |row| {
        let old: Option<Vec<u8>> = row.try_get("old_secret_sealed")?;
        Ok(read_row!(row => SealedKey {
            tenant: tenant_id(row)?, revoked_at, expires_at, secret = "secret_sealed",
            old_secret: old.zip(row.try_get("old_secret_until")?)
        }))
    })
    .await
}

/// Replaces the secret, and keeps the old one until `until`. `false` if the key is revoked, or if an overlap runs that must not be
/// replaced.
pub(crate) async fn rotate_secret(
    tx: &Transaction<'_>, prefix: &str, sealed: &[u8], (until, replace): (Option<DateTime<Utc>>, bool),
    now: DateTime<Utc>,
) -> Result<bool> {
    Ok(execute(tx, ROTATE_SECRET, &[&prefix, &sealed, &until, &now, &replace]).await? > 0)
}

/// When the old secret of a key that is not revoked ends.
pub(crate) async fn overlap(tx: &Transaction<'_>, prefix: &str) -> Result<Option<DateTime<Utc>>> {
    one(tx, OVERLAP, &[&prefix], |row| Ok(row.try_get("old_secret_until")?)).await
}

/// Deletes the old secret. The tenant of the key; `None` if no key has the prefix.
pub(crate) async fn end_overlap(tx: &Transaction<'_>, prefix: &str) -> Result<Option<TenantId>> {
    one(tx, END_OVERLAP, &[&prefix], tenant_id).await
}

pub(crate) async fn find(on: &impl GenericClient, prefix: &str, now: DateTime<Utc>) -> Result<Option<Key>> {
    one(on, FIND, &[&prefix], |row| key(row, now)).await
}

/// The newest keys of a tenant: only revoked ones or others, only those before another one.
pub(crate) async fn list(
    client: &Client, tenant: TenantId, (is_revoked, before): (Option<bool>, Option<&str>), limit: u32,
) -> Result<Newest<Key>> {
    let now = clock::database_now();
    let parameters: super::Parameters<'_> = &[&tenant.0, &is_revoked, &before.unwrap_or_default()];
    newest(client, LIST, parameters, limit, |row| key(row, now)).await
}

/// The next keys after `after` of which a value is not sealed under the master key of `header`.
pub(crate) async fn page_to_rewrap(
    client: &Client, (tenant, prefix): (TenantId, &str), header: &[u8],
) -> Result<Vec<SealedRow>> {
    let read = |row: &Row| {
        let (tenant, prefix): (_, String) = (TenantId(row.try_get("tenant_id")?), row.try_get("prefix")?);
        let binding = api_key_binding(tenant, &prefix);
        let values = vec![
            SealedValue::stored(binding.clone(), Some(row.try_get("secret_sealed")?)),
            SealedValue::stored(binding, row.try_get("old_secret_sealed")?),
        ];
        Ok(SealedRow { tenant, name: prefix, values })
    };
    all(client, TO_REWRAP, &[&tenant.0, &prefix, &header], read).await
}

/// Replaces sealed values, and returns how many.
pub(crate) async fn rewrap(tx: &Transaction<'_>, rows: &[SealedRow]) -> Result<u64> {
    let tenants: Vec<_> = rows.iter().map(|row| row.tenant.0).collect();
    let prefixes: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    let [secrets, old] = [0, 1].map(|column| Columns::of(rows, column));
    count_rewrapped(tx, REWRAP, &[&tenants, &prefixes, &secrets.was, &secrets.now, &old.was, &old.now]).await
}

fn tenant_id(row: &Row) -> Result<TenantId> {
    Ok(TenantId(row.try_get("tenant_id")?))
}

fn key(row: &Row, now: DateTime<Utc>) -> Result<Key> {
    let time = |column| row.try_get::<_, Option<DateTime<Utc>>>(column);
    let created_at: DateTime<Utc> = row.try_get("created_at")?;
    let secret_created_at = time("secret_created_at")?.unwrap_or(created_at);
    let current = UseRow { last_used_at: time("current")?, usable_since: secret_created_at };
    let old = UseRow { last_used_at: time("old")?, usable_since: created_at };
    let any = UseRow { last_used_at: time("any")?, usable_since: secret_created_at };
    let overlap = time("old_secret_until")?.filter(|until| now < *until);
    let revoked_at = time("revoked_at")?;
    let secrets = [Some(current.of_secret(None, now)), overlap.map(|until| old.of_secret(Some(until), now))];
    Ok(Key {
        prefix: row.try_get("prefix")?,
        name: row.try_get("name")?,
        scopes: row.try_get("scopes")?,
        origin: row.try_get("origin")?,
        created_at: clock::to_text(created_at),
        expires_at: time("expires_at")?.map(clock::to_text),
        revoked_at: revoked_at.map(clock::to_text),
        last_used_at: any.last_used_at.map(clock::to_text),
        safe_to_revoke: revoked_at.is_none() && any.is_safe_to_revoke(now),
        requests_last_day: RequestCounts { accepted: row.try_get("accepted")?, refused: row.try_get("refused")? },
        secrets: secrets.into_iter().flatten().collect(),
    })
}
