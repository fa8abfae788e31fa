//! The receivers of a tenant's webhooks.

mod events;
mod health;
mod remove;
mod rotate;
mod test_event;

pub use events::set_events;
pub use health::{HEALTH_DELIVERIES, ReceiverHealth, health};
pub use remove::remove;
pub use rotate::rotate_secret;
pub use test_event::{TestEvent, send_test, wait_for_test};

use crate::audit::{Actor, AuditAction, record};
use crate::input::EventTypes;
use crate::receiver_url::check_receiver;
use crate::store::subscriptions::SubscriptionRow;
use crate::transaction::transact;
use crate::{AdminError, Notice, Observer, master_key, secrets, store, tenants};
use chrono::{DateTime, Utc};
use common::clock;
use common::egress::EgressSettings;
use common::sealed::{MasterKeys, Secret, subscription_binding, subscription_url_binding};
use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, GenericClient, Transaction};
use uuid::Uuid;

/// A subscription to be created.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSubscription {
    /// Slug of the tenant.
    pub tenant: String,
    /// URL of the receiver: `https://` with a public address (D27).
    pub url: String,
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

/// Whether a subscription receives deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SubscriptionState {
    /// Deliveries are sent.
    Active,
    /// Its deliveries wait until it is resumed.
    Paused,
    /// It never does again.
    Removed,
}

impl SubscriptionState {
    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Removed => "removed",
        }
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

/// Creates a subscription, after its receiver was checked. Resolves the name of the receiver's host.
pub async fn create(
    client: &mut Client,
    actor: &Actor,
    master_keys: &MasterKeys,
    egress: &EgressSettings,
    new: &NewSubscription,
    observer: &mut impl Observer,
) -> Result<SubscriptionSecret, AdminError> {
    master_key::verify(client, master_keys).await?;
    let tenant = tenants::find(&*client, &new.tenant).await?;
    if let Some(prefix) = &new.key
        && !store::api_keys::is_active(client, tenant, prefix).await?
    {
        return Err(AdminError::KeyNotActive(prefix.clone()));
    }
    if egress.allow_private {
        observer.notice(Notice::PrivateReceiversAllowed);
    }
    let url = check_receiver(&new.url, egress).await?;
    let (id, secret) = (Uuid::now_v7(), secrets::new_secret("whsec_")?);
    let secret_sealed = secrets::seal(master_keys, &secret, &subscription_binding(tenant, id))?;
    let whole = Secret::new(url.as_str().to_owned());
    let url_sealed = secrets::seal(master_keys, &whole, &subscription_url_binding(tenant, id))?;
    let events = new.events.as_ref().map(EventTypes::names);
    let row = SubscriptionRow {
        tenant,
        id,
        key: new.key.as_deref(),
        url: url.as_str(),
        events: events.as_deref(),
        secret_sealed: &secret_sealed,
        url_sealed: &url_sealed,
    };
    transact(client, async |tx| {
        store::subscriptions::create(tx, &row).await?;
        record(tx, actor, AuditAction::CreateSubscription, &id.to_string(), Some(tenant)).await
    })
    .await?;
    Ok(SubscriptionSecret { id, secret: secret.reveal().to_owned() })
}

/// The subscriptions of a tenant, without removed ones, in the order in which they were created.
pub async fn list(client: &Client, tenant: &str) -> Result<Vec<Subscription>, AdminError> {
    let tenant = tenants::find(client, tenant).await?;
    store::subscriptions::list(client, tenant).await
}

/// The subscription with this id, if it belongs to the tenant and was not removed.
pub async fn find_in(client: &Client, tenant: &str, id: &str) -> Result<Subscription, AdminError> {
    let parsed = parse_id(id)?;
    let found = list(client, tenant).await?.into_iter().find(|subscription| subscription.id == parsed);
    found.ok_or_else(|| AdminError::SubscriptionNotInTenant(id.to_owned()))
}

/// Pauses a subscription: its deliveries wait until it is resumed.
pub async fn pause(client: &mut Client, actor: &Actor, id: &str) -> Result<Subscription, AdminError> {
    let parsed = parse_id(id)?;
    let pause = async |tx: &Transaction<'_>| {
        let Some((tenant, paused)) = store::subscriptions::pause(tx, parsed).await? else {
            return Err(refusal(tx, id).await);
        };
        record(tx, actor, AuditAction::PauseSubscription, &parsed.to_string(), Some(tenant)).await?;
        Ok(paused)
    };
    transact(client, pause).await
}

/// Resumes a subscription; deliveries that wait for it are sent now.
pub async fn resume(client: &mut Client, actor: &Actor, id: &str) -> Result<Subscription, AdminError> {
    let parsed = parse_id(id)?;
    let resume = async |tx: &Transaction<'_>| {
        let Some((tenant, resumed)) = store::subscriptions::resume(tx, parsed).await? else {
            return Err(refusal(tx, id).await);
        };
        record(tx, actor, AuditAction::ResumeSubscription, &parsed.to_string(), Some(tenant)).await?;
        store::delivery_changes::wake_dispatcher(tx).await?;
        Ok(resumed)
    };
    transact(client, resume).await
}

/// The id of a subscription as an operator writes it; `SubscriptionNotFound` if it cannot be one.
pub fn parse_id(id: &str) -> Result<Uuid, AdminError> {
    Uuid::try_parse(id).map_err(|_| AdminError::SubscriptionNotFound(id.to_owned()))
}

/// Why nothing was found to change: it was removed, or does not exist.
async fn refusal(on: &impl GenericClient, id: &str) -> AdminError {
    let is_known = match parse_id(id) {
        Ok(parsed) => store::subscriptions::is_known(on, parsed).await,
        Err(error) => Err(error),
    };
    match is_known {
        Ok(true) => AdminError::SubscriptionRemoved(id.to_owned()),
        Ok(false) => AdminError::SubscriptionNotFound(id.to_owned()),
        Err(error) => error,
    }
}
