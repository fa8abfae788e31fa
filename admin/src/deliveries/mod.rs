//! Webhook deliveries with their attempts, and their replay (D26).
//!
//! Pages are newest first. A page begins where the one before it ended, so that none is skipped or shown twice while new ones
//! arrive, and nothing is counted.

mod replay;

use crate::audit::UrlChanges;
use crate::store::deliveries::Selected;
pub(crate) use crate::store::deliveries::first_id;
pub use crate::store::deliveries::{Attempt, Delivery, SubscriptionBacklog};
use crate::{AdminError, Newest, Result, store, tenants};
use chrono::{DateTime, Utc};
use common::clock;
use common::event::OutboundType;
use common::model::{DeliveryState, TenantId};
pub use replay::{
    MatchingCount, REPLAY_RATE, REPLAY_RATES, ReplayJob, ReplayJobState, count_replay, create_replay, find_replay,
    list_replays, replay_one, send_now, stop_replay, wait_for_replay,
};
use std::fmt;
use std::ops::Range;
use tokio_postgres::Client;
use uuid::Uuid;

/// Which deliveries are shown. Each restriction is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryQuery {
    /// Only deliveries in this state.
    pub state: Option<DeliveryState>,
    /// Only deliveries of events of this type.
    pub event_type: Option<OutboundType>,
    /// Only deliveries to this subscription.
    pub subscription: Option<Uuid>,
    /// Only deliveries of events that occurred at or after this time.
    pub from: Option<DateTime<Utc>>,
    /// Only deliveries of events that occurred before this time.
    pub to: Option<DateTime<Utc>>,
    /// Only deliveries after this one in the list: the `next` of the page before.
    pub before: Option<Uuid>,
}

/// A page of deliveries.
#[derive(Debug)]
pub struct DeliveryPage {
    /// Newest first.
    pub items: Vec<Delivery>,
    /// Where the next page begins; `None` after the last one. Pages before the last one may have few items, or none, if few
    /// of the tenant's deliveries match the query.
    pub next: Option<Uuid>,
}

impl DeliveryQuery {
    /// The ids of the deliveries. An id is a UUIDv7 of the event's time.
    fn ids(&self) -> Range<Uuid> {
        let start = self.from.map_or(Uuid::nil(), first_id);
        let end = [self.to.map(first_id), self.before].into_iter().flatten().min();
        start..end.unwrap_or(Uuid::max())
    }
}

/// As in an audit record: `deliveries state=dead type=lead.assigned`.
impl fmt::Display for DeliveryQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let restrictions = [
            ("state", self.state.map(|state| state.to_string())),
            ("type", self.event_type.map(|known| known.to_string())),
            ("subscription", self.subscription.map(|id| id.to_string())),
            ("from", self.from.map(clock::to_text)),
            ("to", self.to.map(clock::to_text)),
        ];
        f.write_str("deliveries")?;
        for (name, value) in restrictions {
            if let Some(value) = value {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

/// A page of a tenant's deliveries with their attempts.
pub async fn page(client: &Client, tenant: TenantId, query: &DeliveryQuery, limit: u32) -> Result<DeliveryPage> {
    let event_type = query.event_type.map(OutboundType::as_str);
    let DeliveryQuery { state, subscription, .. } = *query;
    let selected = Selected { ids: query.ids(), subscription, state, event_type };
    let (mut items, next) = store::deliveries::page(client, tenant, &selected, limit).await?;
    store::deliveries::load_attempts(client, tenant, &mut items, false).await?;
    set_urls(client, tenant, &mut items).await?;
    Ok(DeliveryPage { items, next })
}

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
    set_urls(client, tenant, std::slice::from_mut(&mut delivery)).await?;
    Ok(delivery)
}

/// Gives attempts the former URL that they were made to, and deliveries that have ended that of their last attempt.
pub(crate) async fn set_urls(client: &Client, tenant: TenantId, deliveries: &mut [Delivery]) -> Result<()> {
    let Some(first) = deliveries.iter().map(|delivery| delivery.created_at).min() else { return Ok(()) };
    let changes = UrlChanges::load(client, tenant, first).await?;
    for delivery in deliveries {
        for attempt in &mut delivery.attempts {
            attempt.url = changes.before(delivery.subscription_id, attempt.at).map(str::to_owned);
        }
        let last = delivery.attempts.last().filter(|_| delivery.state != DeliveryState::Pending);
        if let Some(url) = last.and_then(|last| last.url.clone()) {
            delivery.url = url;
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ranges_of_ids() {
        let at = |milliseconds| DateTime::from_timestamp_millis(milliseconds).unwrap();
        let query = DeliveryQuery { from: Some(at(1)), to: Some(at(2)), ..DeliveryQuery::default() };
        assert_eq!(query.ids(), Uuid::from_u128(1 << 80)..Uuid::from_u128(2 << 80));
        let before = Uuid::from_u128((1 << 80) + 7);
        assert_eq!(DeliveryQuery { before: Some(before), ..query }.ids().end, before);
        assert_eq!(DeliveryQuery::default().ids(), Uuid::nil()..Uuid::max());
        assert_eq!(first_id(at(-1)), Uuid::nil());
    }
}
