//! The limits on requests: under way (here), in the backlog, and reads per second.
//!
//! Bounds the requests under way: of all tenants together, and of each tenant. Beyond a bound the response is 503
//! `overloaded`.
//!
//! Only requests with a valid signature are counted, so that callers without a key cannot use up the permits. A tenant may have
//!
//! - as many as its own limit, while less than three eighths of the permits are taken;
//! - an equal share of all, with one share left for the next tenant, while less than three quarters are taken;
//! - a quarter of those that are left, beyond that, so that any number of tenants leave some for the next one.

pub(crate) mod backlog;
pub(crate) mod read_limit;

use crate::overload::OverloadReason;
use crate::refusal::Refusal;
use common::model::TenantId;
use common::shares::Counts;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A divisor: this part of all permits is reserved for tenants with few requests under way, and one tenant may have this
/// part of the reserved permits that are left.
const RESERVED_DIVISOR: usize = 4;
/// The permits that a tenant may have however small its equal share is, while unreserved permits are left.
const FEW: usize = 2;

/// The limits and the requests under way; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct InFlightLimits(Arc<Shared>);

/// Permits one request under way; released when dropped.
#[derive(Debug)]
pub(crate) struct InFlightPermit {
    limits: InFlightLimits,
    tenant: TenantId,
}

#[derive(Debug)]
struct Shared {
    all: usize,
    per_tenant: usize,
    under_way: Mutex<UnderWay>,
}

/// Requests under way.
#[derive(Debug, Default)]
struct UnderWay {
    total: usize,
    tenants: Counts<TenantId>,
}

impl InFlightLimits {
    /// At most `all` requests, of which at most `per_tenant` of one tenant.
    pub(crate) fn new(all: u32, per_tenant: u32) -> Self {
        let (all, per_tenant) = (all as usize, per_tenant as usize);
        Self(Arc::new(Shared { all, per_tenant, under_way: Mutex::default() }))
    }

    /// Takes a permit for a request of a tenant. To be called once the caller is known and before its signature is used up,
    /// so that a refused request may be sent again unchanged.
    pub(crate) fn acquire(&self, tenant: TenantId) -> Result<InFlightPermit, Refusal> {
        let mut under_way = self.under_way();
        let own = under_way.tenants.of(&tenant);
        let active = under_way.tenants.active() + usize::from(own == 0);
        if let Some(bound) = self.0.full(own, under_way.total, active) {
            return Err(bound.refuse());
        }
        under_way.total += 1;
        under_way.tenants.add(tenant, 1);
        Ok(InFlightPermit { limits: self.clone(), tenant })
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// The limit that another request would exceed, of a tenant that has `own` of `total` among `active` tenants, itself
    /// included.
    fn full(&self, own: usize, total: usize, active: usize) -> Option<OverloadReason> {
        let unreserved = self.all - self.all / RESERVED_DIVISOR;
        let share = if total < unreserved / 2 {
            self.per_tenant
        } else if total < unreserved {
            (self.all / active.saturating_add(1)).max(FEW)
        } else {
            (self.all.saturating_sub(total) / RESERVED_DIVISOR).max(1)
        };
        if own >= share.min(self.per_tenant) {
            Some(OverloadReason::InFlightPerTenant)
        } else {
            (total >= self.all).then_some(OverloadReason::InFlight)
        }
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        let mut under_way = self.limits.under_way();
        under_way.total -= 1;
        under_way.tenants.subtract(&self.tenant, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn take(limits: &InFlightLimits, tenant: u128) -> Vec<InFlightPermit> {
        let tenant = TenantId(Uuid::from_u128(tenant));
        std::iter::from_fn(|| limits.acquire(tenant).ok()).collect()
    }

    #[test]
    fn a_tenant_alone_has_its_limit_and_no_more() {
        let limits = InFlightLimits::new(10, 2);
        let places = take(&limits, 1);
        assert_eq!(places.len(), 2);
        assert_eq!(take(&limits, 2).len(), 2);
        drop(places);
        assert_eq!(take(&limits, 1).len(), 2);
    }

    #[test]
    fn any_number_of_greedy_tenants_leave_permits_for_another() {
        let limits = InFlightLimits::new(512, 128);
        let mut held = Vec::new();
        for tenant in 1..=12 {
            held.push(take(&limits, tenant));
        }
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts[..5], [128, 128, 128, 25, 20], "{counts:?}");
        assert!(!take(&limits, 100).is_empty());
    }

    #[test]
    fn as_requests_end_each_tenant_comes_to_have_its_share() {
        let limits = InFlightLimits::new(512, 128);
        let mut held: Vec<Vec<InFlightPermit>> = (1..=4).map(|tenant| take(&limits, tenant)).collect();
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
    fn few_permits_can_all_be_taken_and_no_entry_outlives_its_requests() {
        let limits = InFlightLimits::new(2, 128);
        let places = take(&limits, 1);
        assert_eq!(places.len(), 2);
        assert!(matches!(limits.acquire(TenantId(Uuid::nil())), Err(Refusal::Overloaded { .. })));
        drop(places);
        let under_way = limits.under_way();
        assert!(under_way.total == 0 && under_way.tenants.active() == 0);
    }
}
