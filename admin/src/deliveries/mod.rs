//! Webhook deliveries with their attempts, and their replay (D26).

mod page;
mod replay;
mod replay_job;

pub use crate::store::deliveries::{Attempt, Delivery, SubscriptionBacklog};
use crate::{AdminError, Newest, Result, store, tenants};
use common::model::{DeliveryState, TenantId};
pub(crate) use page::first_id;
pub use page::{DeliveryPage, DeliveryQuery, page};
pub use replay::{replay_one, send_now};
pub use replay_job::{
    MatchingCount, REPLAY_RATE, REPLAY_RATES, ReplayJob, ReplayJobState, count_replay, create_replay, find_replay,
    list_replays, stop_replay, wait_for_replay,
};
use tokio_postgres::Client;
use uuid::Uuid;

/// The newest deliveries of a tenant, those of the newest events last: only those in a state, and to a subscription.
pub async fn list(
    client: &Client, tenant: &str, (state, named): (Option<DeliveryState>, Option<&str>), limit: u32,
) -> Result<Newest<Delivery>> {
    let tenant = tenants::find(client, tenant).await?;
    let subscription = match named {
        Some(id) => Some(subscription(client, tenant, id).await?),
        None => None,
    };
    let mut query = DeliveryQuery { state, subscription, ..DeliveryQuery::default() };
    let (mut items, mut left) = (Vec::new(), limit);
    loop {
        let found = page(client, tenant, &query, left).await?;
        left = left.saturating_sub(u32::try_from(found.items.len()).unwrap_or(left));
        items.extend(found.items);
        query.before = found.next;
        if left == 0 || query.before.is_none() {
            break;
        }
    }
    items.reverse();
    Ok(Newest { items, is_cut: query.before.is_some() })
}

/// The subscriptions of all tenants that have pending or dead deliveries, most failures first.
pub async fn backlogs(client: &Client) -> Result<Vec<SubscriptionBacklog>> {
    store::deliveries::backlogs(client).await
}

/// The delivery with the id `id`, with its attempts, and `with_responses` also what the receiver responded.
pub async fn find(client: &Client, id: &str, with_responses: bool) -> Result<Delivery> {
    let found = store::deliveries::find(client, parse_id(id)?).await?;
    let mut delivery = found.ok_or_else(|| AdminError::DeliveryNotFound(id.to_owned()))?;
    let tenant = delivery.tenant;
    store::deliveries::load_attempts(client, tenant, std::slice::from_mut(&mut delivery), with_responses).await?;
    Ok(delivery)
}

/// The body of an outbound event's deliveries, as it is sent; `None` if the event is no longer stored.
pub async fn envelope(client: &Client, tenant: TenantId, event: Uuid) -> Result<Option<String>> {
    store::outbox::envelope(client, tenant, event).await
}

/// Parses the id of a delivery. One of another form counts as unknown.
pub fn parse_id(id: &str) -> Result<Uuid> {
    Uuid::try_parse(id).map_err(|_| AdminError::DeliveryNotFound(id.to_owned()))
}

/// Finds a subscription of the tenant, including removed ones.
async fn subscription(client: &Client, tenant: TenantId, id: &str) -> Result<Uuid> {
    if let Ok(parsed) = Uuid::try_parse(id)
        && store::subscriptions::is_of_tenant(client, tenant, parsed).await?
    {
        return Ok(parsed);
    }
    Err(AdminError::SubscriptionNotInTenant(id.to_owned()))
}
