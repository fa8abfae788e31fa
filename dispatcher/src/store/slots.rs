//! Leases of slots, and the dispatchers that run.

use super::{Lease, lease_columns};
use common::db::{DatabaseSession, TxError};
use tokio_postgres::Row;
use uuid::Uuid;

common::statements! {
    // Leases are compared with the clock of the database only. One that ends twice as late as it was given for is from before that
    // clock went back, and has ended. The rows of dispatchers that have ended are removed.
    const RENEW = "
    -- slots.renew
    WITH own AS (
        INSERT INTO dispatchers (dispatcher_id, leased_until) VALUES ($1, now() + interval '5 s')
        ON CONFLICT (dispatcher_id) DO UPDATE SET leased_until = excluded.leased_until
    ), gone AS (
        DELETE FROM dispatchers WHERE dispatcher_id = ANY(ARRAY(
            SELECT dispatcher_id FROM dispatchers WHERE leased_until < now() - interval '1 min' ORDER BY dispatcher_id LIMIT 64
        ))
    ), renewed AS (
        UPDATE dispatcher_slots SET leased_until = now() + interval '5 s' WHERE holder = $1 RETURNING slot, epoch
    )
    SELECT slot, epoch FROM renewed
    UNION ALL
    SELECT NULL, 1 + count(*)
    FROM (SELECT dispatcher_id, leased_until FROM dispatchers ORDER BY dispatcher_id LIMIT 1000) AS d
    WHERE leased_until > now() AND leased_until < now() + interval '10 s' AND dispatcher_id <> $1";

    // Slots whose former holder still commits are left to the next time.
    const TAKE = "
    -- slots.take
    UPDATE dispatcher_slots SET holder = $1, epoch = epoch + 1, leased_until = now() + interval '5 s'
    WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM dispatcher_slots WHERE holder IS NULL OR leased_until < now() OR leased_until > now() + interval '10 s'
        ORDER BY random() LIMIT $2::bigint FOR UPDATE SKIP LOCKED
    ))
    RETURNING slot, epoch";

    const GIVE_UP = "
    -- slots.give_up
    WITH free AS (
        UPDATE dispatcher_slots SET holder = NULL WHERE ctid = ANY(ARRAY(
            SELECT s.place FROM unnest($2::smallint[], $3::bigint[]) AS w (slot, epoch) CROSS JOIN LATERAL (
                SELECT ctid AS place FROM dispatcher_slots s
                WHERE s.slot = w.slot AND s.epoch = w.epoch AND s.holder = $1 FOR NO KEY UPDATE
            ) AS s
        ))
        RETURNING slot
    )
    SELECT pg_notify('connect_slots', '') FROM free LIMIT 1";

    const LEAVE = "
    -- dispatchers.leave
    DELETE FROM dispatchers WHERE dispatcher_id = $1";
}

/// Renews the leases of a dispatcher. Returns them, and the number of dispatchers, this one included.
pub(crate) async fn renew(on: &DatabaseSession, dispatcher: Uuid) -> Result<(Vec<Lease>, usize), TxError> {
    let (mut leases, mut dispatchers) = (Vec::new(), 1);
    for row in on.query(RENEW.as_str(), &[&dispatcher]).await? {
        match row.try_get(0)? {
            Some(slot) => leases.push(Lease { slot, epoch: row.try_get(1)? }),
            None => dispatchers = usize::try_from(row.try_get::<_, i64>(1)?).unwrap_or(1),
        }
    }
    Ok((leases, dispatchers))
}

/// Takes free slots, at most `most`.
pub(crate) async fn take(on: &DatabaseSession, dispatcher: Uuid, most: usize) -> Result<Vec<Lease>, TxError> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let lease = |row: &Row| Ok(Lease { slot: row.try_get(0)?, epoch: row.try_get(1)? });
    on.query(TAKE.as_str(), &[&dispatcher, &most]).await?.iter().map(lease).collect()
}

/// Gives slots up, and tells the other dispatchers so.
pub(crate) async fn give_up(on: &DatabaseSession, dispatcher: Uuid, leases: &[Lease]) -> Result<(), TxError> {
    let (slots, epochs) = lease_columns(leases);
    on.query(GIVE_UP.as_str(), &[&dispatcher, &slots, &epochs]).await.map(drop)
}

/// Makes the dispatcher no longer count for the others.
pub(crate) async fn leave(on: &DatabaseSession, dispatcher: Uuid) -> Result<(), TxError> {
    on.query(LEAVE.as_str(), &[&dispatcher]).await.map(drop)
}
