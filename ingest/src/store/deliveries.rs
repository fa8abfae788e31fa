//! `deliveries` of one subscription with their events, as the feed returns them (D46).

use super::RowError;
use common::model::KeyPrefix;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::Row;
use uuid::Uuid;

/// A part of the feed that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeedQuery {
    /// Whose subscription it is.
    pub(crate) key: KeyPrefix,
    /// `None` for the only one that the key has.
    pub(crate) subscription: Option<Uuid>,
    /// The part begins after this number.
    pub(crate) after: i64,
    /// Most deliveries.
    pub(crate) limit: i64,
}

/// A part of the feed.
#[derive(Debug)]
pub(crate) struct FeedPage {
    /// How many subscriptions match the query: 0, 1, or 2 for more. There are no deliveries unless it is 1.
    pub(crate) subscriptions: i32,
    /// The lowest number that is stored of the subscription.
    pub(crate) oldest: Option<i64>,
    pub(crate) deliveries: Vec<FeedDelivery>,
}

/// A delivery with the envelope as webhooks send it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FeedDelivery {
    number: i64,
    delivery_id: Uuid,
    state: String,
    /// `None` if the event is not stored any more, because it was about a person who was erased.
    envelope: Option<Box<RawValue>>,
}

common::statements! {
    /// Parts of the feeds of many requests, told apart by `place`: a row for each delivery, and one for a request without any.
    ///
    /// Numbers are given under the lock of a row of `delivery_numbers`, until the commit, so each that can be seen is seen with all
    /// lower ones. But the fan-out does not wait for the disk: after a crash of the server a delivery that was seen could be lost, and
    /// its number given to another event, which a reader would pass over. So a part with a delivery of the last seconds
    /// ends with a durable commit: the log is written in order, and with it all that the statement can see is durable. What is older is
    /// durable already, because the server writes its log to the disk several times a second. A replica gets only what is.
    pub(crate) const FEED = "
    -- deliveries.feed
    WITH subscribed AS MATERIALIZED (
        SELECT w.*, CASE WHEN w.subscription_id IS NULL THEN ARRAY(
            SELECT s.subscription_id FROM subscriptions s
            WHERE s.key_prefix = w.key_prefix AND s.tenant_id IS NOT DISTINCT FROM w.tenant_id AND s.removed_at IS NULL LIMIT 2
        ) ELSE ARRAY(
            SELECT s.subscription_id FROM subscriptions s
            WHERE s.tenant_id = w.tenant_id AND s.subscription_id = w.subscription_id AND s.removed_at IS NULL
              AND s.key_prefix IS NOT DISTINCT FROM w.key_prefix LIMIT 1
        ) END AS found
        FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bigint[], $5::bigint[])
             WITH ORDINALITY AS w (tenant_id, key_prefix, subscription_id, after, most, place)
    ), log AS MATERIALIZED (
        SELECT w.*, CASE WHEN cardinality(w.found) = 1 THEN w.found[1] END AS log_id, (
            SELECT d.number FROM deliveries d
            WHERE d.subscription_id = w.found[1] AND d.tenant_id IS NOT DISTINCT FROM w.tenant_id ORDER BY d.number LIMIT 1
        ) AS oldest
        FROM subscribed AS w
    ), page AS MATERIALIZED (
        SELECT w.place, w.tenant_id, cardinality(w.found) AS subscriptions, w.oldest, d.number, d.delivery_id, d.event_id, d.state, d.created_at
        FROM log AS w
        LEFT JOIN LATERAL (
            SELECT d.number, d.delivery_id, d.event_id, d.state, d.created_at FROM deliveries d
            WHERE d.subscription_id = w.log_id AND d.tenant_id IS NOT DISTINCT FROM w.tenant_id AND d.number > w.after
            ORDER BY d.number LIMIT w.most
        ) AS d ON true
    ), durable AS MATERIALIZED (
        SELECT pg_logical_emit_message(true, 'connect', set_config('synchronous_commit', 'on', true)) AS at
        WHERE NOT pg_is_in_recovery() AND EXISTS (SELECT FROM page WHERE created_at > now() - interval '10 s')
    )
    SELECT p.place, p.subscriptions, p.oldest, p.number, p.delivery_id, p.state, o.envelope, (SELECT at FROM durable) AS durable_at
    FROM page AS p
    LEFT JOIN LATERAL (
        SELECT envelope::text FROM outbox o WHERE o.tenant_id = p.tenant_id AND o.event_id = p.event_id LIMIT 1
    ) AS o ON true
    ORDER BY p.place, p.number";
}

/// Decodes the rows of one request.
pub(crate) fn page(rows: &[Row]) -> Result<FeedPage, RowError> {
    let mut page = FeedPage { subscriptions: 0, oldest: None, deliveries: Vec::with_capacity(rows.len()) };
    for row in rows {
        (page.subscriptions, page.oldest) = (row.try_get("subscriptions")?, row.try_get("oldest")?);
        let Some(number) = row.try_get("number")? else { continue };
        let envelope: Option<String> = row.try_get("envelope")?;
        page.deliveries.push(FeedDelivery {
            number,
            delivery_id: row.try_get("delivery_id")?,
            state: row.try_get("state")?,
            envelope: envelope.map(RawValue::from_string).transpose()?,
        });
    }
    Ok(page)
}
