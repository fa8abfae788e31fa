//! How many requests are under way at once: altogether, and for one agency. Beyond it the answer is 503 `overloaded`.
//!
//! Only requests whose signature is valid are counted, so that nobody without a key can use these places up. While
//! few places are taken an agency may have as many as its own limit. As they fill, it may have an equal part of them,
//! one part being left for the agency that comes next. In the last quarter it may have a quarter of what is left, so that
//! any number of agencies leave some for the next one.

use crate::bound::Bound;
use crate::error::Refusal;
use common::model::TenantId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The part of all places, as a divisor, that is kept for agencies with few requests under way; and the part of what is
/// left of these that one agency may have.
const KEPT: u32 = 4;
/// Places that an agency may have however small its equal part is, while there are others than those.
const FEW: u32 = 2;

/// The bounds and who is inside them; cheap to clone.
#[derive(Clone, Debug)]
pub struct Limits(Arc<Shared>);

/// A place among the requests under way. Given back when it is dropped, however its request ends.
#[derive(Debug)]
pub struct Place {
    limits: Limits,
    tenant: TenantId,
}

#[derive(Debug)]
struct Shared {
    all: u32,
    per_tenant: u32,
    under_way: Mutex<UnderWay>,
}

/// Requests under way. Has an entry only for agencies with a request, so it is as bounded as those are.
#[derive(Debug, Default)]
struct UnderWay {
    total: u32,
    tenants: HashMap<TenantId, u32>,
}

impl Limits {
    /// At most `all` requests, of which at most `per_tenant` of one agency.
    pub fn new(all: u32, per_tenant: u32) -> Self {
        Self(Arc::new(Shared { all, per_tenant, under_way: Mutex::default() }))
    }

    /// Takes a place for a request of an agency. To be asked for once the caller is known and before its signature is
    /// used up: what is refused here may be sent again as it is.
    pub fn enter(&self, tenant: TenantId) -> Result<Place, Refusal> {
        let mut under_way = self.under_way();
        let own = under_way.tenants.get(&tenant).copied().unwrap_or(0);
        let active = under_way.tenants.len() + usize::from(own == 0);
        if let Some(bound) = self.0.full(own, under_way.total, u32::try_from(active).unwrap_or(u32::MAX)) {
            return Err(bound.refuse());
        }
        under_way.total += 1;
        *under_way.tenants.entry(tenant).or_insert(0) += 1;
        Ok(Place { limits: self.clone(), tenant })
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// The bound that refuses one more request to an agency that has `own` of `total`, among `active` agencies, itself
    /// included.
    fn full(&self, own: u32, total: u32, active: u32) -> Option<Bound> {
        let shared = self.all - self.all / KEPT;
        let part = if total < shared / 2 {
            self.per_tenant
        } else if total < shared {
            (self.all / active.saturating_add(1)).max(FEW)
        } else {
            (self.all.saturating_sub(total) / KEPT).max(1)
        };
        if own >= part.min(self.per_tenant) {
            Some(Bound::InFlightPerTenant)
        } else {
            (total >= self.all).then_some(Bound::InFlight)
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.limits.under_way();
        under_way.total -= 1;
        if let Some(count) = under_way.tenants.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                under_way.tenants.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn take(limits: &Limits, tenant: u128) -> Vec<Place> {
        let tenant = TenantId(Uuid::from_u128(tenant));
        std::iter::from_fn(|| limits.enter(tenant).ok()).collect()
    }

    #[test]
    fn an_agency_alone_has_its_limit_and_no_more() {
        let limits = Limits::new(10, 2);
        let places = take(&limits, 1);
        assert_eq!(places.len(), 2);
        assert_eq!(take(&limits, 2).len(), 2);
        drop(places);
        assert_eq!(take(&limits, 1).len(), 2);
    }

    #[test]
    fn however_many_agencies_take_all_that_they_get_there_is_room_for_another() {
        let limits = Limits::new(512, 128);
        let mut held = Vec::new();
        for tenant in 1..=12 {
            held.push(take(&limits, tenant));
        }
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts[..5], [128, 128, 128, 25, 20], "{counts:?}");
        assert!(!take(&limits, 100).is_empty());
    }

    #[test]
    fn as_requests_end_each_agency_comes_to_have_its_part() {
        let limits = Limits::new(512, 128);
        let mut held: Vec<Vec<Place>> = (1..=4).map(|tenant| take(&limits, tenant)).collect();
        for _ in 0..1_000 {
            for (places, tenant) in held.iter_mut().zip(1..) {
                // Each has a request end, and sends as many as it may.
                places.pop();
                places.extend(take(&limits, tenant));
            }
        }
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert!(counts.iter().all(|count| (75..=102).contains(count)), "{counts:?}");
        assert!(take(&limits, 5).len() >= 16, "{counts:?}");
    }

    #[test]
    fn few_places_can_all_be_taken_and_nothing_is_kept_of_an_agency_without_requests() {
        let limits = Limits::new(2, 128);
        let places = take(&limits, 1);
        assert_eq!(places.len(), 2);
        assert!(matches!(limits.enter(TenantId(Uuid::nil())), Err(Refusal::Overloaded { .. })));
        drop(places);
        let under_way = limits.under_way();
        assert!(under_way.total == 0 && under_way.tenants.is_empty());
    }
}
