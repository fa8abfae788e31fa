//! The fan-out: events of the outbox become deliveries of the subscriptions that want them.

use super::{Delivery, Lease, Parameters, lease_columns, query};
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Tenants of a slot whose turn it is in one round.
pub(crate) const TENANTS: i32 = 16;
/// Deliveries that one round makes, if no event has more receivers. It limits how long other tenants wait.
const DELIVERIES: i64 = 1_000;
/// Subscriptions that a round names because they have deliveries which it does not return. Looks find others.
pub(crate) const LEFT: usize = 256;
/// Events of one tenant in a round. Fewer if their deliveries are too many for the round.
const EVENTS: i64 = 256;

/// [`delivery_id`](common::message::delivery_id) in SQL, of `id.bytes`: 6 bytes of the event's id and 10 of a digest.
macro_rules! delivery_id {
    () => {
        "encode(set_byte(set_byte(id.bytes, 6, get_byte(id.bytes, 6) & 15 | 112), 8, get_byte(id.bytes, 8) & 63 | 128), 'hex')::uuid"
    };
}

common::statements! {
    // One statement is one round trip and one snapshot, and leaves no transaction open if this program stops.
    //
    // `turn` are the next tenants of each slot that have events, found by a loose index scan, the slots in any order, because a round
    // may have room for the first ones only; `share` those of them whose events fit into the round. An event is pending until its
    // row of outbox_pending is deleted here, whatever order events commit in. One that another transaction has locked is left to a
    // later round, because other tenants must not wait for it. Tenants take turns among the deliveries that are returned, too.
    // The row of delivery_numbers is locked until the deliveries are committed. Numbers are assigned by window functions instead
    // of a join, which would compare each delivery with each subscription.
    //
    // It returns a row for each tenant whose turn it was, the first of the new deliveries, and some subscriptions that have more.
    const FAN_OUT = concat!("
    -- deliveries.fan_out
    WITH RECURSIVE lease AS MATERIALIZED (
        ", super::leases!(), "
    ), turn AS (
        SELECT lease.slot, next.tenant_id, 1 AS place, random() AS rank
        FROM lease
        CROSS JOIN unnest($1::smallint[], $4::uuid[]) AS w (slot, after)
        CROSS JOIN LATERAL (
            SELECT tenant_id FROM outbox_pending p WHERE p.slot = lease.slot AND p.tenant_id > w.after
            ORDER BY tenant_id LIMIT 1
        ) AS next
        WHERE w.slot = lease.slot
        UNION ALL
        SELECT turn.slot, next.tenant_id, turn.place + 1, turn.rank
        FROM turn
        CROSS JOIN LATERAL (
            SELECT tenant_id FROM outbox_pending p WHERE p.slot = turn.slot AND p.tenant_id > turn.tenant_id
            ORDER BY tenant_id LIMIT 1
        ) AS next
        WHERE turn.place < $5
    ), share AS MATERIALIZED (
        SELECT slot, tenant_id, place, greatest(least($6::bigint, ($7::bigint / sum(receivers) OVER ())::bigint), 1) AS most,
               sum(receivers) OVER (ORDER BY place, rank) - receivers < $7 AS is_served
        FROM turn
        CROSS JOIN LATERAL (
            SELECT greatest(count(*), 1) AS receivers FROM (
                SELECT 1 FROM subscriptions s WHERE s.tenant_id = turn.tenant_id AND s.removed_at IS NULL OFFSET 0
            ) AS s
        ) AS s
    ), chosen AS MATERIALIZED (
        SELECT share.slot, share.tenant_id, pending.row
        FROM share
        CROSS JOIN LATERAL (
            SELECT ctid AS row FROM outbox_pending WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM outbox_pending p WHERE p.slot = share.slot AND p.tenant_id = share.tenant_id
                ORDER BY event_id LIMIT share.most
            )) FOR UPDATE SKIP LOCKED
        ) AS pending
        WHERE share.is_served
    ), taken AS (
        DELETE FROM outbox_pending WHERE ctid = ANY(ARRAY(SELECT row FROM chosen)) RETURNING tenant_id, event_id
    ), subscribed AS MATERIALIZED (
        SELECT s.tenant_id, s.subscription_id, s.key_prefix, s.event_types, k.origin
        FROM share
        CROSS JOIN LATERAL (
            SELECT tenant_id, subscription_id, key_prefix, event_types FROM subscriptions s
            WHERE s.tenant_id = share.tenant_id AND s.removed_at IS NULL OFFSET 0
        ) AS s
        LEFT JOIN LATERAL (
            SELECT origin FROM api_keys k
            WHERE k.prefix = s.key_prefix AND k.tenant_id IS NOT DISTINCT FROM s.tenant_id LIMIT 1
        ) AS k ON true
        WHERE share.is_served
    ), wanted AS MATERIALIZED (
        SELECT taken.tenant_id, taken.event_id, s.subscription_id
        FROM taken
        CROSS JOIN LATERAL (
            SELECT event_type, key_prefix, origin, subscription_id FROM outbox o
            WHERE o.tenant_id = taken.tenant_id AND o.event_id = taken.event_id LIMIT 1
        ) AS o
        JOIN subscribed AS s ON s.tenant_id = taken.tenant_id
        -- A test event has one receiver. Others go to those that want their type, except to the key that caused them, or whose
        -- registered origin they have (D24).
        WHERE CASE WHEN o.subscription_id IS NULL
            THEN (s.event_types IS NULL OR o.event_type = ANY(s.event_types))
                 AND (o.key_prefix = s.key_prefix) IS NOT TRUE AND (o.origin = s.origin) IS NOT TRUE
            ELSE s.subscription_id = o.subscription_id END
    ), numbers AS (
        INSERT INTO delivery_numbers AS n (tenant_id, subscription_id, last_number)
        SELECT tenant_id, subscription_id, count(*) FROM wanted GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (tenant_id, subscription_id) DO UPDATE SET last_number = n.last_number + excluded.last_number
        RETURNING subscription_id, last_number
    ), numbered AS (
        SELECT tenant_id, event_id, subscription_id,
               max(last_number) OVER log - count(event_id) OVER log + row_number() OVER (log ORDER BY event_id) AS number
        FROM (
            SELECT tenant_id, event_id, subscription_id, NULL::bigint AS last_number FROM wanted
            UNION ALL
            SELECT NULL, NULL, subscription_id, last_number FROM numbers
        ) AS wanted
        WINDOW log AS (PARTITION BY subscription_id)
    ), inserted AS (
        INSERT INTO deliveries (subscription_id, tenant_id, delivery_id, event_id, number, created_at, next_attempt_at, state)
        SELECT subscription_id, tenant_id, ", delivery_id!(), ", event_id, number, date_trunc('milliseconds', now()), now(),
               'pending'
        FROM numbered
        CROSS JOIN LATERAL (
            SELECT substring(uuid_send(event_id) FOR 6)
                   || substring(sha256(uuid_send(event_id) || uuid_send(subscription_id)) FOR 10) AS bytes
        ) AS id WHERE event_id IS NOT NULL
        RETURNING tenant_id, subscription_id, number, delivery_id, event_id, attempts, attempts_before
    ), ranked AS (
        SELECT *, number = max(number) OVER (PARTITION BY subscription_id) AS is_last,
               row_number() OVER (PARTITION BY tenant_id ORDER BY number, subscription_id) AS rank FROM inserted
    ), sent AS (
        SELECT *, row_number() OVER (ORDER BY rank) <= $8 AS is_sent FROM ranked
    )
    SELECT ", super::delivery_columns!(), ", NULL::smallint AS slot, true, NULL::boolean, NULL::bigint
    FROM (SELECT * FROM sent WHERE is_sent) AS d
    ", super::joined_to_delivery!(), "
    UNION ALL
    (SELECT tenant_id, subscription_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, false, NULL, NULL FROM sent WHERE is_last AND NOT is_sent ORDER BY rank LIMIT $9)
    UNION ALL
    SELECT tenant_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           slot, bool_or(is_served), bool_or(is_last), min(most) - count(row)
    FROM (
        SELECT slot, tenant_id, is_served, place = $5 AS is_last, most, NULL::tid AS row FROM share
        UNION ALL
        SELECT slot, tenant_id, NULL, NULL, NULL, row FROM chosen
    ) AS turn
    GROUP BY slot, tenant_id");

    const NEXT = "
    -- outbox_pending.next_tenant
    SELECT p.tenant_id FROM unnest($1::smallint[], $2::uuid[]) AS w (slot, after)
    CROSS JOIN LATERAL (SELECT tenant_id FROM outbox_pending p WHERE p.slot = w.slot AND p.tenant_id > w.after
                        ORDER BY tenant_id LIMIT 1) AS p";
}

/// Limits the log lines about events that cannot be fanned out.
static FAILED: LogLimit<1> = LogLimit::new();

/// What a round has done.
#[derive(Debug)]
pub(crate) struct FanOutRound {
    pub turns: Vec<SlotTurn>,
    /// The first of the new deliveries.
    pub deliveries: Vec<Delivery>,
    /// Tenants and subscriptions that have more of them, at most [`LEFT`].
    pub left: Vec<(Uuid, Uuid)>,
}

/// What remains in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotTurn {
    pub slot: i16,
    /// The next turn begins after this tenant.
    pub after: Uuid,
    /// Whether events may be left.
    pub has_more: bool,
}

/// What a round has done for a tenant.
#[derive(Clone, Copy, Debug)]
struct TenantTurn {
    tenant: Uuid,
    is_served: bool,
    /// Whether further tenants may follow.
    is_last: bool,
    /// Events that it could have had in addition.
    unused: i64,
}

/// Makes the deliveries of one round, of slots that this `dispatcher` holds, each with the tenant after which the turn begins. At
/// most `sent` of them are read completely. After an error the round may be committed. A slot that `is_alone` has its tenants one by
/// one, and passes over one whose events cannot be fanned out, until something wakes it.
pub(crate) async fn fan_out(
    database: &Database, dispatcher: Uuid, slots: &[(Lease, Uuid)], is_alone: bool, sent: usize,
) -> Result<FanOutRound, TxError> {
    let (tenants, sent) = if is_alone { (1, 0) } else { (TENANTS, i64::try_from(sent).unwrap_or(i64::MAX)) };
    let (leases, after): (Vec<Lease>, Vec<Uuid>) = slots.iter().copied().unzip();
    let (numbers, epochs) = lease_columns(&leases);
    let parameters: Parameters<'_> =
        &[&numbers, &epochs, &dispatcher, &after, &tenants, &EVENTS, &DELIVERIES, &sent, &(LEFT as i64)];
    let rows = match query(database, FAN_OUT, parameters).await {
        Err(TxError::StatementFailed(error) | TxError::Conflict(error)) if is_alone => {
            let next = query(database, NEXT, &[&numbers, &after]).await?;
            let tenant: Uuid = next.first().map_or(Ok(after[0]), |row| row.try_get(0))?;
            limited!(FAILED[0], error, %tenant, %error, "the events of a tenant cannot be fanned out; those of others go on");
            let turn = SlotTurn { slot: numbers[0], after: tenant, has_more: false };
            return Ok(FanOutRound { turns: vec![turn], deliveries: Vec::new(), left: Vec::new() });
        }
        rows => rows?,
    };
    let (mut deliveries, mut left, mut turns) = (vec![], vec![], BTreeMap::<i16, Vec<TenantTurn>>::new());
    for row in rows {
        match row.try_get(17)? {
            None if row.try_get(18)? => deliveries.push(Delivery::read(&row)?),
            None => left.push((row.try_get(0)?, row.try_get(1)?)),
            Some(slot) => turns.entry(slot).or_default().push(TenantTurn {
                tenant: row.try_get(0)?,
                is_served: row.try_get(18)?,
                is_last: row.try_get(19)?,
                unused: row.try_get(20)?,
            }),
        }
    }
    deliveries.sort_unstable_by_key(|delivery| delivery.number);
    let turn =
        |(lease, after): &(Lease, Uuid)| slot_turn(lease.slot, *after, turns.remove(&lease.slot).unwrap_or_default());
    Ok(FanOutRound { turns: slots.iter().map(turn).collect(), deliveries, left })
}

fn slot_turn(slot: i16, after: Uuid, mut tenants: Vec<TenantTurn>) -> SlotTurn {
    tenants.sort_unstable_by_key(|turn| turn.tenant);
    let is_complete = tenants.iter().all(|turn| turn.is_served && !turn.is_last);
    let is_used_up = tenants.iter().any(|turn| turn.is_served && turn.unused == 0);
    let last = tenants.iter().rfind(|turn| turn.is_served).map(|turn| turn.tenant);
    SlotTurn {
        slot,
        after: if is_complete { Uuid::nil() } else { last.unwrap_or(after) },
        // A turn that did not begin with the first tenant has not seen those before it.
        has_more: !is_complete || is_used_up || !after.is_nil(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(after: u128, tenants: &[(u128, bool, bool, i64)]) -> (u128, bool) {
        let tenants = tenants.iter().map(|&(tenant, is_served, is_last, unused)| TenantTurn {
            tenant: Uuid::from_u128(tenant),
            is_served,
            is_last,
            unused,
        });
        let turn = slot_turn(3, Uuid::from_u128(after), tenants.collect());
        (turn.after.as_u128(), turn.has_more)
    }

    #[test]
    fn the_next_turn_begins_after_the_last_tenant_that_was_served() {
        assert_eq!(turn(0, &[]), (0, false));
        assert_eq!(turn(0, &[(5, true, false, 7)]), (0, false));
        assert_eq!(turn(0, &[(5, true, false, 0)]), (0, true), "it may have more events");
        assert_eq!(turn(0, &[(6, false, false, 9), (5, true, false, 7)]), (5, true), "the round was full");
        assert_eq!(turn(0, &[(6, true, true, 9), (5, true, false, 7)]), (6, true), "more tenants may follow");
        assert_eq!(turn(6, &[]), (0, true), "tenants before the sixth one were not looked at");
        assert_eq!(turn(6, &[(7, false, false, 9)]), (6, true), "other slots have filled the round");
    }
}
