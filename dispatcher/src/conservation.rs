//! Conservation of webhooks: every event that was relayed has a delivery for each subscription that wanted it.
//!
//! What was emitted is delivered, waiting, dead-lettered or dropped. An event that is not relayed waits in the outbox, and each
//! delivery of a relayed one has a row in one of these states, because the relay mark commits together with the rows. So a
//! delivery without a row is accounted for nowhere. The gauge counts these; it survives restarts, because it compares rows and
//! no counters.
//!
//! Only the current event types of a subscription are stored, so events before their last change are not compared with it.

use crate::store::{self, RelayedPage};
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::message::delivery_id;
use common::metrics::WEBHOOK_UNACCOUNTED;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Limits the log lines: of failures, and of missing deliveries.
static LOGGED: LogLimit<2> = LogLimit::new();

/// How far back events are compared, by the times in their ids.
const WINDOW: TimeDelta = TimeDelta::hours(1);
/// A subscription that was created, or whose event types were changed, so shortly before an event may not have been visible as
/// it is now when the event was relayed; clocks of machines may differ, too.
const SETTLING: TimeDelta = TimeDelta::minutes(1);
/// Events that are compared at once.
const PAGE: i64 = 500;
/// Pause between two passes over the window.
const PAUSE: Duration = Duration::from_secs(10);
/// The pause after a page, as a multiple of the time that it took: the pages of a busy hour are compared within minutes.
const PAUSE_FACTOR: u32 = 20;

/// Compares events of the window, over and over, until `shutdown`.
pub(crate) async fn observe(database: Database, shutdown: CancellationToken) {
    loop {
        match shutdown.run_until_cancelled(compare_window(&database)).await {
            None => return,
            Some(Ok(missing)) => report_missing(&missing),
            Some(Err(error)) => {
                limited!(LOGGED[0], warn, %error, "comparing events with their deliveries failed; the gauge keeps its last value");
            }
        }
        if shutdown.run_until_cancelled(sleep(PAUSE)).await.is_none() {
            return;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
/// Sets the gauge, and logs that deliveries are missing.
fn report_missing(missing: &[Uuid]) {
    metrics::gauge!(WEBHOOK_UNACCOUNTED).set(missing.len() as f64);
    if let Some(delivery_id) = missing.first() {
        let missing = missing.len();
        limited!(
            LOGGED[1],
            error,
            missing,
            %delivery_id,
            "deliveries of relayed events do not exist; their webhooks are not sent"
        );
    }
}

/// Returns the deliveries of the window's events that do not exist.
async fn compare_window(database: &Database) -> Result<Vec<Uuid>, TxError> {
    let (mut missing, mut after) = (Vec::new(), first_id_of(clock::now() - WINDOW));
    loop {
        let begun = Instant::now();
        let client = database.client().await?;
        let page = store::load_relayed(&client, after, PAGE).await?;
        let Some(last) = page.events.last() else { return Ok(missing) };
        after = last.event.event_id;
        let keys = expected(&page);
        let existing = store::find_existing(&client, &keys).await?;
        drop(client);
        missing.extend(keys.into_iter().map(|(_, delivery)| delivery).filter(|id| !existing.contains(id)));
        sleep(begun.elapsed() * PAUSE_FACTOR).await;
    }
}

/// Tenants and ids of the deliveries that must exist.
fn expected(page: &RelayedPage) -> Vec<(Uuid, Uuid)> {
    let of_event = |relayed: &store::RelayedEvent| {
        let (event, emitted_at) = (&relayed.event, relayed.created_at);
        let wanting = page.subscriptions.iter().filter(move |(subscription, wants_since)| {
            subscription.wants(event) && *wants_since + SETTLING < emitted_at
        });
        wanting
            .map(|(subscription, _)| (event.tenant_id, delivery_id(event.event_id, subscription.id)))
            .collect::<Vec<_>>()
    };
    page.events.iter().flat_map(of_event).collect()
}

/// The lowest UUIDv7 of a time.
fn first_id_of(at: DateTime<Utc>) -> Uuid {
    let millis = u64::try_from(at.timestamp_millis()).unwrap_or_default();
    Uuid::from_u128(u128::from(millis) << 80)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fan_out::{OutboxEvent, Subscription};
    use crate::store::RelayedEvent;

    const TENANT: Uuid = Uuid::from_u128(1);

    fn subscription(id: u128, tenant_id: Uuid) -> Subscription {
        Subscription { tenant_id, id: Uuid::from_u128(id), key: None, event_types: None, is_paused: false }
    }

    #[test]
    fn a_delivery_is_expected_for_each_subscription_that_wanted_the_event() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(1);
        let event = OutboxEvent {
            tenant_id: TENANT,
            event_id: Uuid::from_u128(9 << 80),
            event_type: "lead.assigned".to_owned(),
            key_prefix: None,
            origin: "crm".to_owned(),
            envelope: String::new(),
            traceparent: None,
            request_id: None,
            only_for: None,
        };
        let other_types = Subscription { event_types: Some(Vec::new()), ..subscription(3, TENANT) };
        let page = RelayedPage {
            events: vec![RelayedEvent { event: event.clone(), created_at: now }],
            subscriptions: vec![
                (subscription(2, TENANT), now - TimeDelta::hours(1)),
                (other_types, now - TimeDelta::hours(1)),
                (subscription(4, Uuid::from_u128(7)), now - TimeDelta::hours(1)),
                (subscription(5, TENANT), now - SETTLING),
            ],
        };
        assert_eq!(expected(&page), [(TENANT, delivery_id(event.event_id, Uuid::from_u128(2)))]);
    }

    #[test]
    fn ids_of_a_time_follow_the_first_one() {
        let at = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        let id = |at: DateTime<Utc>| {
            let seconds = u64::try_from(at.timestamp()).unwrap();
            Uuid::new_v7(uuid::Timestamp::from_unix_time(seconds, at.timestamp_subsec_nanos(), 0, 0))
        };
        assert!(first_id_of(at) < id(at) && id(at - TimeDelta::milliseconds(1)) < first_id_of(at));
    }
}
