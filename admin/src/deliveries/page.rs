//! Deliveries page by page, newest first. A page begins where the one before it ended, so that none is skipped or shown twice
//! while new ones arrive, and nothing is counted.

use super::Delivery;
use crate::{AdminError, Newest, store};
use chrono::{DateTime, Utc};
use common::clock;
use common::event::OutboundType;
use common::model::{DeliveryState, TenantId};
use std::fmt;
use std::ops::Range;
use tokio_postgres::Client;
use uuid::Uuid;

/// Deliveries that are read for a page when they must be filtered by the event's type, which their rows do not contain.
const SCANNED: u32 = 500;

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
    /// Where the next page begins; `None` after the last one. Pages before the last one may have few items, or none, if the
    /// query has an event type.
    pub next: Option<Uuid>,
}

impl DeliveryQuery {
    /// The ids of the deliveries. An id is a UUIDv7 of the event's time.
    pub(super) fn ids(&self) -> Range<Uuid> {
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

/// The smallest id of an event at a time.
pub(crate) fn first_id(at: DateTime<Utc>) -> Uuid {
    let milliseconds = u64::try_from(at.timestamp_millis()).unwrap_or_default().min((1 << 48) - 1);
    Uuid::from_u128(u128::from(milliseconds) << 80)
}

/// A page of a tenant's deliveries with their attempts.
pub async fn page(
    client: &Client,
    tenant: TenantId,
    query: &DeliveryQuery,
    limit: u32,
) -> Result<DeliveryPage, AdminError> {
    let mut page = scan(client, tenant, query, limit).await?;
    store::deliveries::load_attempts(client, tenant, &mut page.items, false).await?;
    Ok(page)
}

/// A page without attempts.
async fn scan(
    client: &Client,
    tenant: TenantId,
    query: &DeliveryQuery,
    limit: u32,
) -> Result<DeliveryPage, AdminError> {
    let (ids, read) = (query.ids(), if query.event_type.is_some() { SCANNED.max(limit) } else { limit });
    let states = query.state.map_or_else(|| DeliveryState::ALL.to_vec(), |state| vec![state]);
    let scanned = if query.subscription.is_none() && query.state.is_none() {
        store::deliveries::page(client, tenant, &ids, read).await?
    } else {
        let subscriptions = match query.subscription {
            Some(id) if store::subscriptions::is_of_tenant(client, tenant, id).await? => vec![id],
            Some(_) => Vec::new(),
            None => store::subscriptions::all_ids(client, tenant).await?,
        };
        store::deliveries::page_of(client, tenant, &ids, &subscriptions, &states, read).await?
    };
    Ok(cut(scanned, query.event_type, usize::try_from(limit).unwrap_or(usize::MAX)))
}

/// The newest `limit` of the deliveries that were read, oldest first, with the right event type.
fn cut(scanned: Newest<Delivery>, event_type: Option<OutboundType>, limit: usize) -> DeliveryPage {
    let Newest { mut items, is_cut } = scanned;
    items.reverse();
    let last_scanned = items.last().map(|delivery| delivery.id);
    let is_wanted = |delivery: &Delivery| {
        event_type.is_none_or(|wanted| delivery.event_type.as_deref() == Some(wanted.as_str()))
    };
    items.retain(is_wanted);
    let next = if items.len() > limit {
        items.truncate(limit);
        items.last().map(|delivery| delivery.id)
    } else {
        last_scanned.filter(|_| is_cut)
    };
    DeliveryPage { items, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(id: u128, event_type: OutboundType) -> Delivery {
        Delivery {
            id: Uuid::from_u128(id),
            tenant: TenantId(Uuid::nil()),
            event_id: Uuid::nil(),
            event_type: Some(event_type.as_str().to_owned()),
            subscription_id: Uuid::nil(),
            state: DeliveryState::Delivered,
            created_at: DateTime::UNIX_EPOCH,
            next_attempt_at: None,
            origin: None,
            attempts: Vec::new(),
        }
    }

    fn ids(page: &DeliveryPage) -> (Vec<u128>, Option<u128>) {
        (page.items.iter().map(|delivery| delivery.id.as_u128()).collect(), page.next.map(|id| id.as_u128()))
    }

    #[test]
    fn a_page_ends_where_the_next_one_begins() {
        use OutboundType::{LeadAssigned, ProposalSent};
        let items = || vec![delivery(1, LeadAssigned), delivery(2, ProposalSent), delivery(3, LeadAssigned)];
        let cut = |is_cut, event_type, limit| ids(&cut(Newest { items: items(), is_cut }, event_type, limit));
        assert_eq!(cut(false, None, 3), (vec![3, 2, 1], None));
        assert_eq!(cut(true, None, 3), (vec![3, 2, 1], Some(1)));
        assert_eq!(cut(true, Some(ProposalSent), 3), (vec![2], Some(1)), "the rest was not read yet");
        assert_eq!(cut(false, Some(LeadAssigned), 1), (vec![3], Some(3)), "one more was read");
        assert_eq!(cut(false, Some(ProposalSent), 1), (vec![2], None));
    }

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
