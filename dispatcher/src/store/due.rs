//! Deliveries that are due, and which subscriptions have some.

use super::{Delivery, duration, query};
use common::db::{Database, TxError, column};
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

/// Subscriptions that one look reads.
const LOOK: i64 = 1_000;

common::statements! {
    // For each subscription the deliveries that are due first, without those that this program has. One that is not due yet is
    // returned without its event, as the time of the next one.
    const DUE = concat!("
    -- deliveries.next
    SELECT ", super::delivery_columns!(), ", extract(epoch FROM d.next_attempt_at - now())::float8
    FROM unnest($1::uuid[], $2::smallint[], $3::integer[], $4::text[]::int8multirange[])
         AS w (subscription_id, slot, most, held)
    CROSS JOIN LATERAL (
        SELECT *, next_attempt_at <= now() AS is_sent FROM deliveries d
        WHERE d.slot = w.slot AND d.subscription_id = w.subscription_id AND d.state = 'pending'
          AND NOT d.number <@ w.held
        ORDER BY d.next_attempt_at LIMIT w.most
    ) AS d
    ", super::joined_to_delivery!());

    const LOOK_AT = "
    -- deliveries.look
    SELECT slot, subscription_id, tenant_id, extract(epoch FROM next_attempt_at - now())::float8, is_paused
    FROM pending_subscriptions($1, $2, $3) AS page ORDER BY slot, subscription_id";
}

/// What is to be read of a subscription.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub subscription_id: Uuid,
    pub slot: i16,
    /// Most deliveries.
    pub most: usize,
    /// Numbers of deliveries that this program has already.
    pub held: Vec<i64>,
}

/// A subscription with pending deliveries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueSubscription {
    pub slot: i16,
    pub subscription_id: Uuid,
    pub tenant_id: Uuid,
    /// When the first of them is due, from now.
    pub due_in: Duration,
    pub is_paused: bool,
}

/// A delivery, and the time until it is due.
pub(crate) type Due = (Delivery, Duration);

/// Loads deliveries of subscriptions in the order in which they are due.
pub(crate) async fn load_due(database: &Database, reads: &[Read]) -> Result<Vec<Due>, TxError> {
    let subscriptions = column(reads, |read| read.subscription_id);
    let most = column(reads, |read| i32::try_from(read.most).unwrap_or(i32::MAX));
    let (slots, held) = (column(reads, |read| read.slot), column(reads, |read| ranges(&read.held)));
    let rows = query(database, DUE, &[&subscriptions, &slots, &most, &held]).await?;
    let due = |row: &Row| Ok((Delivery::read(row)?, duration(row.try_get(17)?)));
    rows.iter().map(due).collect()
}

/// Numbers as a multirange, because those of a flood follow each other.
fn ranges(numbers: &[i64]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let ranges = sorted.chunk_by(|one, next| one + 1 == *next);
    let ranges: Vec<String> = ranges.map(|range| format!("[{},{}]", range[0], range[range.len() - 1])).collect();
    format!("{{{}}}", ranges.join(","))
}

/// Looks at the subscriptions with pending deliveries after that slot and subscription, in their order: at most a thousand. Returns
/// whether more may follow.
pub(crate) async fn look(
    database: &Database, (slot, subscription): (i16, Uuid),
) -> Result<(Vec<DueSubscription>, bool), TxError> {
    let rows = query(database, LOOK_AT, &[&slot, &subscription, &LOOK]).await?;
    let found = |row: &Row| {
        Ok(DueSubscription {
            slot: row.try_get(0)?,
            subscription_id: row.try_get(1)?,
            tenant_id: row.try_get(2)?,
            due_in: duration(row.try_get(3)?),
            is_paused: row.try_get(4)?,
        })
    };
    let found: Result<Vec<DueSubscription>, TxError> = rows.iter().map(found).collect();
    let has_more = i64::try_from(rows.len()) == Ok(LOOK);
    Ok((found?, has_more))
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn numbers_that_follow_each_other_are_one_range() {
        assert_eq!(ranges(&[]), "{}");
        assert_eq!(ranges(&[7, 5, 12, 6]), "{[5,7],[12,12]}");
    }
}
