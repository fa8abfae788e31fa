//! The receivers of a tenant's webhooks.

use crate::activity::{ActivityMinute, HOUR, first_period};
use crate::audit::{Actor, AuditAction, UrlChanges, record};
use crate::deliveries::{self, Delivery, first_id};
use crate::input::{EventTypes, Rotation};
pub use crate::receiver_url::{CheckedReceiver, check_receiver};
use crate::store::outbox::{self, TestEventRow};
use crate::store::subscriptions::SubscriptionRow;
pub use crate::store::subscriptions::{ReceiverHealth, Subscription, SubscriptionState};
use crate::{AdminError, Newest, Result, Steps, secrets, store, tenants, transact};
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::event::TEST_EVENT_TYPE;
use common::message::delivery_id;
use common::model::{DeliveryState, TenantId};
use common::sealed::{MasterKeys, Secret, subscription_binding, subscription_url_binding};
use common::settings::Bound;
use serde::Serialize;
use serde_json::json;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, GenericClient, Transaction};
use uuid::Uuid;

/// A subscription to be created.
#[derive(Debug)]
pub struct NewSubscription {
    /// Slug of the tenant.
    pub tenant: String,
    /// The receiver: `https://` with a public address (D27).
    pub receiver: CheckedReceiver,
    /// Prefix of the receiving system's API key: events caused by the key's own calls are not sent to it.
    pub key: Option<String>,
    /// Event types to deliver; `None` for all.
    pub events: Option<EventTypes>,
}

/// A new signing secret of a subscription.
#[derive(Serialize)]
pub struct SubscriptionSecret {
    /// Id of the subscription.
    pub id: Uuid,
    /// Signs the deliveries. It is stored sealed and cannot be read again.
    pub secret: String,
}

/// Creates a subscription. Refused if the tenant has as many as `bound` allows.
pub async fn create(
    client: &mut Client, actor: &Actor, master_keys: &MasterKeys, bound: Bound, new: &NewSubscription,
) -> Result<SubscriptionSecret> {
    secrets::verify_master_keys(client, master_keys).await?;
    let tenant = tenants::find(&*client, &new.tenant).await?;
    if let Some(prefix) = &new.key
        && !store::api_keys::is_active(client, tenant, prefix).await?
    {
        return Err(AdminError::KeyNotActive(prefix.clone()));
    }
    let (id, secret) = (Uuid::now_v7(), secrets::new_signing_secret()?);
    let secret_sealed = secrets::seal(master_keys, &secret, &subscription_binding(tenant, id))?;
    let url_sealed = seal_url(master_keys, &new.receiver, tenant, id)?;
    let events = new.events.as_ref().map(EventTypes::names);
    let row = SubscriptionRow {
        tenant,
        id,
        key: new.key.as_deref(),
        url: new.receiver.as_str(),
        events: events.as_deref(),
        secret_sealed: &secret_sealed,
        url_sealed: &url_sealed,
    };
    transact(client, async |tx| {
        if !store::subscriptions::create(tx, &row, bound).await? {
            return Err(AdminError::BoundReached { what: "subscriptions", bound });
        }
        record(tx, actor, AuditAction::CreateSubscription, &id.to_string(), Some(tenant)).await
    })
    .await?;
    Ok(SubscriptionSecret { id, secret: secret.reveal().to_owned() })
}

fn seal_url(master_keys: &MasterKeys, receiver: &CheckedReceiver, tenant: TenantId, id: Uuid) -> Result<Vec<u8>> {
    let whole = Secret::new(receiver.as_str().to_owned());
    secrets::seal(master_keys, &whole, &subscription_url_binding(tenant, id))
}

/// Replaces the URL of a subscription's receiver (D27). Deliveries that wait go to the new one.
pub async fn set_url(
    client: &mut Client, actor: &Actor, master_keys: &MasterKeys, id: Uuid, receiver: &CheckedReceiver,
) -> Result<Subscription> {
    secrets::verify_master_keys(client, master_keys).await?;
    let Some(tenant) = store::subscriptions::tenant(&*client, id).await? else {
        return Err(refusal(&*client, id).await);
    };
    let sealed = seal_url(master_keys, receiver, tenant, id)?;
    transact(client, async |tx| {
        let changed = store::subscriptions::set_url(tx, id, receiver.as_str(), &sealed).await?;
        let Some((tenant, subscription, was)) = changed else { return Err(refusal(tx, id).await) };
        store::attention::forget_failures(tx, tenant, id).await?;
        let target = format!("{id} from={was} to={}", subscription.url);
        record(tx, actor, AuditAction::SetSubscriptionUrl, &target, Some(tenant)).await?;
        Ok(subscription)
    })
    .await
}

/// The newest `limit` subscriptions of a tenant, without removed ones, in the order in which they were created; those before the one
/// with the id `before`.
pub async fn list(client: &Client, tenant: &str, before: Option<Uuid>, limit: u32) -> Result<Newest<Subscription>> {
    let tenant = tenants::find(client, tenant).await?;
    store::subscriptions::list(client, tenant, before, limit).await
}

/// The subscription with this id, if it belongs to the tenant and was not removed.
pub async fn find_in(client: &Client, tenant: &str, id: &str) -> Result<Subscription> {
    let parsed = parse_id(id)?;
    let tenant = tenants::find(client, tenant).await?;
    let found = store::subscriptions::find(client, tenant, parsed).await?;
    found.ok_or_else(|| AdminError::SubscriptionNotInTenant(id.to_owned()))
}

/// Pauses a subscription: its deliveries wait until it is resumed.
pub async fn pause(client: &mut Client, actor: &Actor, id: Uuid) -> Result<Subscription> {
    transact(client, async |tx| {
        let paused = store::subscriptions::pause(tx, id).await?;
        recorded(tx, actor, AuditAction::PauseSubscription, id, paused).await
    })
    .await
}

/// Resumes a subscription; deliveries whose time has come are sent now, the others at their next attempt.
pub async fn resume(client: &mut Client, actor: &Actor, id: Uuid) -> Result<Subscription> {
    transact(client, async |tx| {
        let resumed = store::subscriptions::resume(tx, id).await?;
        let resumed = recorded(tx, actor, AuditAction::ResumeSubscription, id, resumed).await?;
        store::delivery_changes::wake_dispatchers(tx).await?;
        Ok(resumed)
    })
    .await
}

/// Adds the record of a change of a subscription, and returns the subscription. Without one nothing was found to change.
async fn recorded(
    tx: &Transaction<'_>, actor: &Actor, action: AuditAction, id: Uuid, changed: Option<(TenantId, Subscription)>,
) -> Result<Subscription> {
    let Some((tenant, subscription)) = changed else { return Err(refusal(tx, id).await) };
    record(tx, actor, action, &id.to_string(), Some(tenant)).await?;
    Ok(subscription)
}

/// The id of a subscription as an operator writes it; `SubscriptionNotFound` if it cannot be one.
pub fn parse_id(id: &str) -> Result<Uuid> {
    Uuid::try_parse(id).map_err(|_| AdminError::SubscriptionNotFound(id.to_owned()))
}

/// Why nothing was found to change: it was removed, or does not exist.
async fn refusal(on: &impl GenericClient, id: Uuid) -> AdminError {
    match store::subscriptions::is_known(on, id).await {
        Ok(true) => AdminError::SubscriptionRemoved(id.to_string()),
        Ok(false) => AdminError::SubscriptionNotFound(id.to_string()),
        Err(error) => error,
    }
}

/// Replaces the event types that a subscription receives; `None` stands for all. It concerns events that are fanned out from
/// now on: deliveries that wait are sent.
pub async fn set_events(
    client: &mut Client, actor: &Actor, id: Uuid, events: Option<&EventTypes>,
) -> Result<Subscription> {
    let names = events.map(EventTypes::names);
    transact(client, async |tx| {
        let changed = store::subscriptions::set_events(tx, id, names.as_deref()).await?;
        recorded(tx, actor, AuditAction::SetSubscriptionEvents, id, changed).await
    })
    .await
}

/// Until when the old secret of a subscription is valid beside the current one, if it still is.
pub async fn overlap(client: &Client, id: Uuid) -> Result<Option<DateTime<Utc>>> {
    let until = store::subscriptions::overlap(client, id).await?;
    Ok(until.filter(|until| clock::database_now() < *until))
}

/// Replaces the signing secret. During `overlap` deliveries are also signed with the old secret; without it the old secret is
/// invalid from now on. Refused while the overlap of an earlier rotation runs, unless that may be replaced.
pub async fn rotate_secret(
    client: &mut Client, actor: &Actor, master_keys: &MasterKeys, id: Uuid, rotation: Rotation,
) -> Result<SubscriptionSecret> {
    secrets::verify_master_keys(client, master_keys).await?;
    let now = clock::database_now();
    let until = rotation.overlap.map(|overlap| secrets::end(now, overlap, "the overlap would end")).transpose()?;
    let Some(tenant) = store::subscriptions::tenant(&*client, id).await? else {
        return Err(refusal(&*client, id).await);
    };
    let secret = secrets::new_signing_secret()?;
    let sealed = secrets::seal(master_keys, &secret, &subscription_binding(tenant, id))?;
    transact(client, async |tx| {
        let replaced = (until, rotation.replace_overlap);
        if !store::subscriptions::rotate_secret(tx, id, &sealed, replaced, now).await? {
            return Err(match store::subscriptions::overlap(tx, id).await? {
                Some(until) => AdminError::OverlapRuns(clock::to_text(until)),
                None => refusal(tx, id).await,
            });
        }
        record(tx, actor, AuditAction::RotateSubscriptionSecret, &id.to_string(), Some(tenant)).await
    })
    .await?;
    Ok(SubscriptionSecret { id, secret: secret.reveal().to_owned() })
}

/// Removes the subscription, and in the same transaction drops the first of its pending and dead-lettered deliveries. The
/// remaining ones follow batch by batch; if the operation is interrupted, another run drops them. The dispatcher sends none of
/// them, and drops those that a fan-out adds which began before.
pub async fn remove(database: &mut impl Steps, actor: &Actor, id: Uuid) -> Result<Subscription> {
    let now = clock::database_now();
    let begin = async |tx: &Transaction<'_>| {
        let removed = match store::subscriptions::remove(tx, id, now).await? {
            Some(removed) => Some((removed, true)),
            None => store::subscriptions::removed(tx, id).await?.map(|before| (before, false)),
        };
        let not_found = || AdminError::SubscriptionNotFound(id.to_string());
        let ((tenant, subscription), is_new) = removed.ok_or_else(not_found)?;
        let dropped = store::delivery_changes::drop_batch(tx, tenant, id).await?;
        if !is_new && dropped == 0 {
            return Err(AdminError::SubscriptionRemoved(id.to_string()));
        }
        store::attention::forget_mail(tx, tenant, id).await?;
        record(tx, actor, AuditAction::RemoveSubscription, &id.to_string(), Some(tenant)).await?;
        Ok((tenant, dropped, subscription))
    };
    let (tenant, mut dropped, subscription) = database.step(async |client| transact(client, begin).await).await?;
    while dropped > 0 {
        let next = async |tx: &Transaction<'_>| store::delivery_changes::drop_batch(tx, tenant, id).await;
        dropped = database.step(async |client| transact(client, next).await).await?;
    }
    Ok(subscription)
}

/// Maximum number of deliveries of a subscription whose attempts are considered, the newest ones.
pub const HEALTH_DELIVERIES: i64 = 500;
/// Events of this time are considered.
const WINDOW: TimeDelta = TimeDelta::hours(24);

/// From when on the attempts of each subscription count: from `since` on, or from a later change of its URL.
async fn since_url(
    client: &Client, tenant: TenantId, subscriptions: &[Uuid], since: DateTime<Utc>,
) -> Result<Vec<DateTime<Utc>>> {
    let changes = UrlChanges::load(client, tenant, since).await?;
    Ok(subscriptions.iter().map(|id| changes.last(*id).map_or(since, |at| at.max(since))).collect())
}

/// The health of the receivers of a tenant's subscriptions, since a change of their URL. Those without attempts are missing.
pub async fn health(
    client: &Client, tenant: TenantId, subscriptions: &[Uuid],
) -> Result<HashMap<Uuid, ReceiverHealth>> {
    let first = clock::database_now() - WINDOW;
    let since = since_url(client, tenant, subscriptions, first).await?;
    let attempts = (subscriptions, since.as_slice());
    store::subscriptions::health(client, tenant, attempts, first_id(first), HEALTH_DELIVERIES).await
}

/// The attempts on a subscription's newest deliveries in each of the last 24 hours, since a change of its URL, the current one last.
pub async fn last_day(client: &Client, tenant: TenantId, subscription: Uuid) -> Result<Vec<ActivityMinute>> {
    let first = first_period(clock::database_now(), HOUR, 24);
    let since = since_url(client, tenant, &[subscription], first).await?[0];
    let id = first_id(first - WINDOW);
    let counted = store::subscriptions::hours(client, tenant, (subscription, since), id, HEALTH_DELIVERIES).await?;
    let hour = |at: DateTime<Utc>| {
        let (delivered, attempts) = counted.get(&(at.timestamp() / 3_600)).copied().unwrap_or_default();
        ActivityMinute { at, delivered, undelivered: attempts - delivered, ..ActivityMinute::default() }
    };
    Ok((0..24).map(|number| hour(first + HOUR * number)).collect())
}

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

/// Writes a test event, which takes the path of every other event, with the new id `event` for one subscription to the outbox. Its receiver gets it whatever the event types of the subscription are;
/// other subscriptions of the tenant do not.
pub async fn send_test(client: &mut Client, actor: &Actor, id: Uuid, event: Uuid) -> Result<TestEvent> {
    let send = async |tx: &Transaction<'_>| {
        let Some((tenant, slug, is_paused)) = store::subscriptions::slug(tx, id).await? else {
            return Err(refusal(tx, id).await);
        };
        if is_paused {
            return Err(AdminError::SubscriptionPaused(id.to_string()));
        }
        let envelope = envelope(event, id, &slug);
        let row = TestEventRow { tenant, event, subscription: id, origin: ORIGIN, envelope: &envelope };
        outbox::insert_test(tx, &row).await?;
        record(tx, actor, AuditAction::TestSubscription, &id.to_string(), Some(tenant)).await
    };
    transact(client, send).await?;
    Ok(TestEvent { event, delivery: delivery_id(event, id) })
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
