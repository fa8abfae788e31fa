//! The feed of a subscription (D46): its deliveries in the order of their numbers, for those who catch up, or have no
//! receiver.
//!
//! A request that waits looks for deliveries several times a second. Meanwhile it holds no connection to the database.

use super::{Services, VerifiedRequest, read};
use crate::http::{RequestHead, query};
use crate::reads::{not_found, or_internal_error};
use crate::refusal::{OverloadReason, Refusal};
use crate::store::deliveries::{self, FeedDelivery, FeedPage, FeedQuery};
use crate::store::records::{RecordLookup, RecordQuery};
use common::event::Faults;
use common::model::{KeyPrefix, Scope, TenantId};
use common::shares::Counts;
use parking_lot::Mutex;
use serde::Serialize;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use warp::Reply;
use warp::reply::Response;

/// A number that a request may send: its name, its bounds, and its value if it is not sent.
type NumberParameter = (&'static str, RangeInclusive<i64>, i64);

/// The number of the last delivery that the caller has.
pub(crate) const AFTER: NumberParameter = ("after", 0..=i64::MAX, 0);
/// Most deliveries of a response.
pub(crate) const LIMIT: NumberParameter = ("limit", 1..=100, 100);
/// The longest wait, in seconds.
pub(crate) const WAIT: NumberParameter = ("wait", 0..=30, 0);
/// All parameters; the last one is an id.
pub(crate) const PARAMETERS: [&str; 4] = [AFTER.0, LIMIT.0, WAIT.0, "subscription"];
/// Requests that wait at once: a tenant has an equal part of the first number, at least one and at most the second.
const WAITING: (usize, usize) = (256, 16);
/// Time between two looks, in milliseconds.
const LOOK_EVERY: u64 = 300;

/// The requests that wait.
#[derive(Debug)]
pub(crate) struct FeedWaits {
    tenants: Mutex<Counts<TenantId>>,
    /// Canceled once the program is to end.
    ending: CancellationToken,
    began: Instant,
}

/// A place among the requests that wait, given back when dropped.
struct FeedWait<'a> {
    waits: &'a FeedWaits,
    tenant: TenantId,
}

impl FeedWaits {
    /// Requests wait until `ending` at most.
    pub(crate) fn new(ending: CancellationToken) -> Self {
        Self { tenants: Mutex::default(), ending, began: Instant::now() }
    }

    /// Takes a place among the requests that wait. 503 `overloaded` when the tenant has used up its own.
    fn take_place(&self, tenant: TenantId) -> Result<FeedWait<'_>, Refusal> {
        let mut tenants = self.tenants.lock();
        let own = tenants.of(&tenant);
        let active = tenants.active() + usize::from(own == 0);
        let (all, of_tenant) = WAITING;
        if own >= (all / active).clamp(1, of_tenant) {
            return Err(OverloadReason::Tenant.refuse());
        }
        tenants.add(tenant, 1);
        Ok(FeedWait { waits: self, tenant })
    }

    fn is_over(&self, until: Instant) -> bool {
        self.ending.is_cancelled() || Instant::now() >= until
    }

    /// Waits until the next look: all requests look at the same moments, so that they share round trips.
    async fn until_next_look(&self, until: Instant) {
        let since = self.began.elapsed().as_millis() as u64 % LOOK_EVERY;
        let next = Duration::from_millis(LOOK_EVERY - since).min(until - Instant::now());
        drop(timeout(next, self.ending.cancelled()).await);
    }
}

impl Drop for FeedWait<'_> {
    fn drop(&mut self) {
        self.waits.tenants.lock().subtract(&self.tenant, 1);
    }
}

/// Responds with a part of the feed.
pub(super) async fn handle(
    services: &Services, head: &RequestHead, VerifiedRequest { verified, .. }: &VerifiedRequest,
) -> Result<Response, Refusal> {
    let (caller, waits) = (verified.caller(), &services.feed_waits);
    let asked = parse(head.query(), &caller.key);
    let wait = asked.as_ref().map_or(Duration::ZERO, |(_, wait)| *wait);
    // 401 of a known replay comes before the 503, which comes before the signature is used up: it may be sent again.
    services.replays.entry(verified, None)?;
    let _place = (!wait.is_zero()).then(|| waits.take_place(caller.tenant_id)).transpose()?;
    let until = Instant::now() + wait;
    let asked = asked.map(|(query, _)| query);
    let mut rows = read::find(services, verified, asked.clone().map(RecordQuery::Feed)).await?;
    let asked = asked?;
    let find = async |limit| {
        let query = RecordQuery::Feed(FeedQuery { limit, ..asked.clone() });
        let lookup = RecordLookup { tenant: caller.tenant_id, query };
        services.reads.rows(services.reads.find(lookup, services.auth.deadline()).await)
    };
    loop {
        let page = or_internal_error(deliveries::page(&rows))?;
        if page.subscriptions != 1 || !page.deliveries.is_empty() || waits.is_over(until) {
            return response(&page);
        }
        waits.until_next_look(until).await;
        if let Err(refusal) = services.auth.check_again(verified, Scope::WebhooksRead).await {
            // The request itself was in order.
            return Ok(refusal.into_response());
        }
        rows = find(1).await?;
        if !or_internal_error(deliveries::page(&rows))?.deliveries.is_empty() {
            rows = find(asked.limit).await?;
        }
    }
}

/// What a request asks for, and how long it waits. 400 for a number that is none or out of bounds, 404 for a malformed
/// id (D18).
fn parse(sent: &str, key: &KeyPrefix) -> Result<(FeedQuery, Duration), Refusal> {
    let ([after, limit, wait, subscription], mut faults) = query::parse_parameters(sent, PARAMETERS);
    let after = number(&mut faults, AFTER, after.as_deref());
    let limit = number(&mut faults, LIMIT, limit.as_deref());
    let wait = wait.as_deref().map(|wait| wait.strip_suffix('s').unwrap_or(wait));
    let wait = Duration::from_secs(number(&mut faults, WAIT, wait).unsigned_abs());
    query::refuse(&faults)?;
    let id = |id: String| (id.len() == 36).then(|| Uuid::try_parse(&id).ok()).flatten().ok_or_else(not_found);
    Ok((FeedQuery { key: key.clone(), subscription: subscription.map(id).transpose()?, after, limit }, wait))
}

fn number(faults: &mut Faults, (name, bounds, default): NumberParameter, sent: Option<&str>) -> i64 {
    let Some(sent) = sent else { return default };
    let digits = sent.bytes().all(|byte| byte.is_ascii_digit()).then_some(sent);
    let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| bounds.contains(number));
    number.unwrap_or_else(|| {
        let (from, to) = bounds.into_inner();
        faults.push(name, format!("must be a whole number from {from} to {to}"));
        default
    })
}

fn response(page: &FeedPage) -> Result<Response, Refusal> {
    #[derive(Serialize)]
    struct Body<'a> {
        data: &'a [FeedDelivery],
        oldest: Option<i64>,
    }
    match page.subscriptions {
        0 => Err(not_found()),
        1 => read::json(&Body { data: &page.deliveries, oldest: page.oldest }),
        _ => {
            let text = "subscription: is required, because the key has several subscriptions";
            Err(Refusal::InvalidRequest(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_its_part_of_the_places_to_wait_and_others_have_theirs() {
        let waits = FeedWaits::new(CancellationToken::new());
        let take = |tenant| {
            let tenant = TenantId(Uuid::from_u128(tenant));
            std::iter::from_fn(|| waits.take_place(tenant).ok()).collect::<Vec<_>>()
        };
        let held: Vec<_> = (0..32).map(take).collect();
        assert_eq!((held[0].len(), held[31].len()), (16, 8));
        drop(held);
        assert_eq!(waits.tenants.lock().active(), 0);
        assert_eq!(take(0).len(), 16);
    }

    #[test]
    fn numbers_are_digits_within_their_bounds() {
        let key = KeyPrefix::parse("ck_1").unwrap();
        let parsed = |sent: &str| parse(sent, &key).map(|(query, wait)| (query.after, query.limit, wait.as_secs()));
        assert_eq!(parsed(""), Ok((0, 100, 0)));
        assert_eq!(parsed("after=9223372036854775807&limit=1&wait=30"), Ok((i64::MAX, 1, 30)));
        assert_eq!(parsed("after=007&wait=5s&limit="), Ok((7, 100, 5)));
        for wrong in [
            "after=-1", "after=9223372036854775808", "after=x", "after=1.0", "after=%2B1", "after=1e3", "limit=0",
            "limit=101", "limit=-5", "wait=31", "wait=s", "wait=-1", "wait=1m", "wait=99999999999999999999",
        ] {
            assert!(matches!(parsed(wrong), Err(Refusal::InvalidRequest(_))), "{wrong}");
        }
        for id in ["x", "0199c0de7a3b7c1580034d5e6f708192"] {
            assert_eq!(parsed(&format!("subscription={id}")), Err(not_found()));
        }
    }
}
