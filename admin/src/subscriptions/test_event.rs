//! Sending a test event to one subscription, on the same path as every other event: outbox, fan-out, signed
//! request, recorded attempt.

use super::{parse_id, refusal};
use crate::audit::{Actor, AuditAction, record};
use crate::deliveries::{self, Delivery};
use crate::store::outbox::{self, TestEventRow};
use crate::{AdminError, Result, store, transact};
use common::clock;
use common::event::TEST_EVENT_TYPE;
use common::message::delivery_id;
use common::model::DeliveryState;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

/// The `origin` of test events, which no key and no action of the CRM has.
const ORIGIN: &str = "connect-test";
/// How often the result of the first attempt is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A test event that waits for the fan-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestEvent {
    /// `eventId` of the envelope.
    pub event: Uuid,
    /// The only delivery of the event.
    pub delivery: Uuid,
}

/// Writes a test event with the new id `event` for one subscription to the outbox. Its receiver gets it whatever the event types of the subscription are;
/// other subscriptions of the tenant do not.
pub async fn send_test(client: &mut Client, actor: &Actor, id: &str, event: Uuid) -> Result<TestEvent> {
    let subscription = parse_id(id)?;
    let send = async |tx: &Transaction<'_>| {
        let Some((tenant, slug, is_paused)) = store::subscriptions::slug(tx, subscription).await? else {
            return Err(refusal(tx, id).await);
        };
        if is_paused {
            return Err(AdminError::SubscriptionPaused(id.to_owned()));
        }
        let envelope = envelope(event, subscription, &slug);
        let row = TestEventRow { tenant, event, subscription, origin: ORIGIN, envelope: &envelope };
        outbox::insert_test(tx, &row).await?;
        record(tx, actor, AuditAction::TestSubscription, &subscription.to_string(), Some(tenant)).await
    };
    transact(client, send).await?;
    Ok(TestEvent { event, delivery: delivery_id(event, subscription) })
}

/// The body of the webhook (specification: Event envelope). It names no lead and nobody's contact data.
fn envelope(event: Uuid, subscription: Uuid, slug: &str) -> String {
    let envelope = json!({
        "specVersion": "1.0",
        "eventId": event,
        "eventType": TEST_EVENT_TYPE,
        "occurredAt": clock::to_text(clock::database_now()),
        "tenant": slug,
        "origin": ORIGIN,
        "actor": {"type": "contact", "externalId": "connect-test", "name": "Test event"},
        "payload": {"test": true, "subscriptionId": subscription},
    });
    envelope.to_string()
}

/// Waits until the first attempt of a test event has ended, with a success or not, and returns the delivery. Fails after `within`;
/// the event is sent all the same as soon as a dispatcher runs.
pub async fn wait_for_test(client: &Client, test: TestEvent, within: Duration) -> Result<Delivery> {
    let (deadline, id) = (Instant::now() + within, test.delivery.to_string());
    loop {
        let found = match deliveries::find(client, &id, true).await {
            // The attempts are read after the state, which may be older.
            Ok(delivery) if !delivery.attempts.is_empty() && delivery.state != DeliveryState::Pending => {
                return Ok(delivery);
            }
            Ok(delivery) => Some(delivery),
            // The event is not fanned out yet.
            Err(AdminError::DeliveryNotFound(_)) => None,
            Err(error) => return Err(error),
        };
        if Instant::now() >= deadline {
            let (delivery, waited) = (test.delivery, within);
            return Err(match found {
                None => AdminError::TestNotAttempted { delivery, waited },
                Some(found) => AdminError::TestDelayed { delivery, state: found.state, waited },
            });
        }
        sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::event::OutboundType;

    #[test]
    fn a_test_event_has_an_envelope_of_a_type_that_no_other_event_has() {
        assert_eq!(OutboundType::parse(TEST_EVENT_TYPE), None);
        let body: serde_json::Value = serde_json::from_str(&envelope(Uuid::nil(), Uuid::max(), "acme")).unwrap();
        assert_eq!(body["eventType"], "webhook.test");
        assert_eq!(body["payload"], json!({"test": true, "subscriptionId": Uuid::max()}));
        for field in ["specVersion", "eventId", "occurredAt", "tenant", "origin"] {
            assert!(body[field].is_string(), "{field}: {body}");
        }
        assert_eq!(body["actor"]["type"], "contact");
    }
}
