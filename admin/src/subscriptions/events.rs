//! Changing the event types of a subscription.

use super::{Subscription, parse_id, refusal};
use crate::audit::{Actor, AuditAction, record};
use crate::input::EventTypes;
use crate::transaction::transact;
use crate::{AdminError, store};
use tokio_postgres::{Client, Transaction};

/// Replaces the event types that a subscription receives; `None` stands for all. It concerns events that are relayed from now
/// on: deliveries that wait are sent.
pub async fn set_events(
    client: &mut Client,
    actor: &Actor,
    id: &str,
    events: Option<&EventTypes>,
) -> Result<Subscription, AdminError> {
    let parsed = parse_id(id)?;
    let names = events.map(EventTypes::names);
    let set = async |tx: &Transaction<'_>| {
        let Some((tenant, changed)) = store::subscriptions::set_events(tx, parsed, names.as_deref()).await?
        else {
            return Err(refusal(tx, id).await);
        };
        record(tx, actor, AuditAction::SetSubscriptionEvents, &parsed.to_string(), Some(tenant)).await?;
        Ok(changed)
    };
    transact(client, set).await
}
