//! Enquiry numbers: reserved before it is known how many a unit takes, and kept for the next one when it took fewer.
//!
//! Reserving is a transaction of its own, so that no unit waits for another's commit, and runs beside the unit's loads.
//! What is not taken stays in this process; what is in reserve when the process ends is never used, which leaves a gap.

use crate::rules::NumberBlock;
use crate::store;
use common::db::{Database, TxError};
use common::model::TenantId;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most tenants and years with numbers in reserve, and most numbers of each; what exceeds it leaves a gap.
const TENANTS: usize = 10_000;
const NUMBERS: usize = 1_000;

type Reserve = HashMap<(TenantId, i32), BTreeSet<i32>>;

/// Hands out enquiry numbers. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct EnquiryNumbers {
    counters: Database,
    reserve: Arc<Mutex<Reserve>>,
}

impl EnquiryNumbers {
    /// Reserves through `counters`.
    pub(super) fn new(counters: Database) -> Self {
        Self { counters, reserve: Arc::default() }
    }

    /// The same reserve, filled through other connections.
    pub(super) fn on(&self, counters: Database) -> Self {
        Self { counters, reserve: Arc::clone(&self.reserve) }
    }

    /// Numbers of `year` for each tenant: from the reserve, the lowest first, and what that lacks from the database.
    pub(super) async fn reserve(
        &self,
        wanted: &[(TenantId, usize)],
        year: i32,
    ) -> Result<HashMap<TenantId, NumberBlock>, TxError> {
        let mut numbers = self.take(wanted, year);
        let lacking = |(tenant, count): &(TenantId, usize)| {
            let lacking = count - numbers.get(tenant).map_or(0, Vec::len);
            (lacking > 0).then(|| (*tenant, i32::try_from(lacking).unwrap_or(i32::MAX)))
        };
        let lacking: Vec<(TenantId, i32)> = wanted.iter().filter_map(lacking).collect();
        if !lacking.is_empty() {
            let counts: HashMap<TenantId, i32> = lacking.iter().copied().collect();
            let year = i16::try_from(year).unwrap_or(i16::MAX);
            for (tenant, last) in store::reserve_numbers(&self.counters, &lacking, year).await? {
                let count = counts.get(&tenant).copied().unwrap_or_default();
                numbers.entry(tenant).or_default().extend(last - count + 1..=last);
            }
        }
        let block = |(tenant, numbers)| (tenant, NumberBlock::new(year, numbers));
        Ok(numbers.into_iter().map(block).collect())
    }

    fn take(&self, wanted: &[(TenantId, usize)], year: i32) -> HashMap<TenantId, Vec<i32>> {
        let mut reserve = self.lock();
        let mut taken: HashMap<TenantId, Vec<i32>> = HashMap::with_capacity(wanted.len());
        for (tenant, count) in wanted {
            let Some(numbers) = reserve.get_mut(&(*tenant, year)) else { continue };
            let of_tenant = taken.entry(*tenant).or_default();
            while of_tenant.len() < *count
                && let Some(number) = numbers.pop_first()
            {
                of_tenant.push(number);
            }
        }
        taken
    }

    /// Keeps what was not taken.
    pub(super) fn give_back(&self, blocks: HashMap<TenantId, NumberBlock>) {
        let mut reserve = self.lock();
        if reserve.len() > TENANTS {
            reserve.clear();
        }
        for (tenant, block) in blocks {
            let year = block.year();
            let mut rest = block.into_rest().peekable();
            if rest.peek().is_some() {
                let numbers = reserve.entry((tenant, year)).or_default();
                let room = NUMBERS.saturating_sub(numbers.len());
                numbers.extend(rest.take(room));
            }
        }
    }

    /// Gives up what is in reserve.
    pub(super) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Reserve> {
        self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
