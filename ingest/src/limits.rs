//! How many requests are under way at once: altogether, and for one agency. Beyond it the answer is 503 `overloaded`.

use crate::bound::Bound;
use crate::error::Refusal;
use common::model::TenantId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bounds and who is inside them. A place is given back when it is dropped, however its request ends.
#[derive(Debug)]
pub struct Limits {
    all: Arc<Semaphore>,
    tenants: Arc<Tenants>,
}

/// A place among all requests.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

/// A place among the requests of one agency.
#[derive(Debug)]
pub struct TenantPlace {
    tenants: Arc<Tenants>,
    tenant: TenantId,
}

/// Requests under way by agency. Has an entry only for agencies with a request, so it is as bounded as those are.
#[derive(Debug)]
struct Tenants {
    most: u32,
    under_way: Mutex<HashMap<TenantId, u32>>,
}

impl Limits {
    /// At most `all` requests, of which at most `per_tenant` of one agency.
    pub fn new(all: u32, per_tenant: u32) -> Self {
        let tenants = Tenants { most: per_tenant, under_way: Mutex::default() };
        Self { all: Arc::new(Semaphore::new(all as usize)), tenants: Arc::new(tenants) }
    }

    /// Takes a place for a request whose body has arrived. Slow senders hold none.
    pub fn enter(&self) -> Result<Place, Refusal> {
        Arc::clone(&self.all).try_acquire_owned().map(Place).map_err(|_| Bound::InFlight.refuse())
    }

    /// Takes one of the agency's places. To be asked for once the caller is known and before its signature is used up:
    /// what is refused here may be sent again as it is.
    pub fn enter_tenant(&self, tenant: TenantId) -> Result<TenantPlace, Refusal> {
        let mut under_way = self.tenants.under_way();
        let count = under_way.entry(tenant).or_insert(0);
        if *count >= self.tenants.most {
            return Err(Bound::InFlightPerTenant.refuse());
        }
        *count += 1;
        Ok(TenantPlace { tenants: Arc::clone(&self.tenants), tenant })
    }
}

impl Tenants {
    fn under_way(&self) -> MutexGuard<'_, HashMap<TenantId, u32>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TenantPlace {
    fn drop(&mut self) {
        let mut under_way = self.tenants.under_way();
        if let Some(count) = under_way.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn one_agency_can_take_its_share_and_no_more() {
        let limits = Limits::new(10, 2);
        let (a, b) = (TenantId(Uuid::from_u128(1)), TenantId(Uuid::from_u128(2)));
        let places = [limits.enter_tenant(a).unwrap(), limits.enter_tenant(a).unwrap()];
        assert!(matches!(limits.enter_tenant(a), Err(Refusal::Overloaded { .. })));
        let _other = limits.enter_tenant(b).unwrap();
        drop(places);
        assert!(limits.enter_tenant(a).is_ok());
    }

    #[test]
    fn places_come_back_and_nothing_is_kept_of_an_agency_without_requests() {
        let limits = Limits::new(1, 1);
        let tenant = TenantId(Uuid::from_u128(1));
        let place = limits.enter().unwrap();
        assert!(matches!(limits.enter(), Err(Refusal::Overloaded { .. })));
        drop(place);
        assert!(limits.enter().is_ok());
        drop(limits.enter_tenant(tenant).unwrap());
        assert!(limits.tenants.under_way().is_empty());
    }
}
