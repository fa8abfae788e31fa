//! Enquiry numbers. They are reserved before it is known how many a unit uses; unused ones are kept for the next unit.
//!
//! Reserving is a transaction of its own, so that no unit waits for another's commit, and runs beside the unit's loads.
//! Unused numbers stay in this process; those in reserve when the process ends are never used, which leaves a gap.
//!
//! A counter is committed without waiting for the disk, so a server that crashes may lose the last reservations and hand
//! out the same numbers again. A number from the reserve is therefore used only on a connection that is older than
//! its reservation: no connection survives a crash.

use crate::rules::NumberBlock;
use crate::store;
use common::db::{Database, TxError};
use common::model::TenantId;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of pairs of tenant and year with numbers in reserve. Once there are more, the whole reserve is dropped, which
/// leaves gaps.
const MAX_PAIRS: usize = 10_000;
/// Maximum number of numbers in reserve of one pair. Excess ones are dropped, which leaves a gap.
const MAX_NUMBERS: usize = 1_000;

/// Reserved numbers that no unit holds.
#[derive(Debug, Default)]
struct Reserve {
    numbers: HashMap<(TenantId, i32), BTreeSet<i32>>,
    /// When the first of them was reserved, or earlier; `None` while there are none.
    since: Option<Instant>,
}

/// Reserves enquiry numbers. Clones share one reserve.
#[derive(Clone, Debug)]
pub(super) struct EnquiryNumbers {
    counters: Database,
    reserve: SharedReserve,
}

#[derive(Clone, Debug, Default)]
struct SharedReserve(Arc<Mutex<Reserve>>);

/// The numbers that a unit holds. Those that are left when this is dropped go back into the reserve.
#[derive(Debug)]
pub(super) struct ReservedNumbers {
    blocks: HashMap<TenantId, NumberBlock>,
    year: i32,
    /// When the first of them was reserved, or earlier.
    since: Instant,
    reserve: SharedReserve,
}

impl EnquiryNumbers {
    /// Creates an empty reserve that is filled through `counters`.
    pub(super) fn new(counters: Database) -> Self {
        Self { counters, reserve: SharedReserve::default() }
    }

    /// Shares the reserve, but fills it through other connections.
    pub(super) fn with_connections(&self, counters: Database) -> Self {
        Self { counters, reserve: self.reserve.clone() }
    }

    /// Numbers of `year` for each tenant: the lowest ones of the reserve first, missing ones from the database.
    /// `connected_at` is when the connection was opened on which they will be used.
    pub(super) async fn reserve(
        &self, requested: &[(TenantId, usize)], year: i32, connected_at: Instant,
    ) -> Result<ReservedNumbers, TxError> {
        let mut numbers = self.reserve.take(requested, year, connected_at);
        let added = self.raise_counters(&numbers.missing(requested), year).await?;
        if !numbers.add(added) {
            // A counter that hands out a number twice was reset by a crash: the numbers in reserve are no longer reserved.
            numbers.blocks.clear();
            self.forget();
            let added = self.raise_counters(&numbers.missing(requested), year).await?;
            if !numbers.add(added) {
                return Err(TxError::Abandoned("a counter handed out an enquiry number twice".to_owned()));
            }
        }
        Ok(numbers)
    }

    async fn raise_counters(
        &self, missing: &[(TenantId, i32)], year: i32,
    ) -> Result<Vec<(TenantId, RangeInclusive<i32>)>, TxError> {
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let counts: HashMap<TenantId, i32> = missing.iter().copied().collect();
        let year = i16::try_from(year).unwrap_or(i16::MAX);
        let raised = store::reserve_numbers(&self.counters, missing, year).await?;
        let range = |(tenant, last): (TenantId, i32)| {
            let count = counts.get(&tenant).copied().unwrap_or_default();
            (tenant, last - count + 1..=last)
        };
        Ok(raised.into_iter().map(range).collect())
    }

    /// Drops all numbers in reserve.
    pub(super) fn forget(&self) {
        *self.reserve.0.lock() = Reserve::default();
    }
}

impl SharedReserve {
    fn take(&self, requested: &[(TenantId, usize)], year: i32, connected_at: Instant) -> ReservedNumbers {
        let mut reserve = self.0.lock();
        // A unit that needs no number, such as a dry run, leaves the reserve to others.
        if !requested.is_empty() && reserve.since.is_some_and(|since| since < connected_at) {
            *reserve = Reserve::default();
        }
        let since = reserve.since.unwrap_or_else(Instant::now);
        let mut blocks = HashMap::with_capacity(requested.len());
        for (tenant, count) in requested {
            let Some(numbers) = reserve.numbers.get_mut(&(*tenant, year)) else { continue };
            let mut taken = Vec::new();
            while taken.len() < *count
                && let Some(number) = numbers.pop_first()
            {
                taken.push(number);
            }
            blocks.insert(*tenant, NumberBlock::new(year, taken));
        }
        ReservedNumbers { blocks, year, since, reserve: self.clone() }
    }

    fn return_unused(&self, blocks: impl Iterator<Item = (TenantId, NumberBlock)>, since: Instant) {
        let mut reserve = self.0.lock();
        if reserve.numbers.len() > MAX_PAIRS {
            *reserve = Reserve::default();
        }
        for (tenant, block) in blocks {
            let year = block.year();
            let mut rest = block.into_rest().peekable();
            if rest.peek().is_some() {
                let numbers = reserve.numbers.entry((tenant, year)).or_default();
                let room = MAX_NUMBERS.saturating_sub(numbers.len());
                numbers.extend(rest.take(room));
                reserve.since = Some(reserve.since.map_or(since, |earlier| earlier.min(since)));
            }
        }
    }
}

impl ReservedNumbers {
    /// The numbers reserved for a tenant; an empty block if there are none.
    pub(super) fn of(&mut self, tenant: TenantId) -> &mut NumberBlock {
        self.blocks.entry(tenant).or_default()
    }

    fn missing(&self, requested: &[(TenantId, usize)]) -> Vec<(TenantId, i32)> {
        let missing = |(tenant, count): &(TenantId, usize)| {
            let missing = count.saturating_sub(self.blocks.get(tenant).map_or(0, NumberBlock::len));
            (missing > 0).then(|| (*tenant, i32::try_from(missing).unwrap_or(i32::MAX)))
        };
        requested.iter().filter_map(missing).collect()
    }

    /// Adds numbers. `false` if those of a tenant are not higher than the last number of its block; then they are not added,
    /// nor are those of the tenants after it.
    fn add(&mut self, added: Vec<(TenantId, RangeInclusive<i32>)>) -> bool {
        let year = self.year;
        let mut add = |(tenant, numbers)| {
            let block = self.blocks.entry(tenant).or_insert_with(|| NumberBlock::new(year, []));
            block.extend(numbers)
        };
        added.into_iter().all(&mut add)
    }
}

impl Drop for ReservedNumbers {
    fn drop(&mut self) {
        self.reserve.return_unused(self.blocks.drain(), self.since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use uuid::Uuid;

    const TENANT: TenantId = TenantId(Uuid::nil());

    fn taken(numbers: &mut ReservedNumbers) -> Vec<i32> {
        std::iter::from_fn(|| numbers.of(TENANT).take().ok()).map(|(_, number)| number).collect()
    }

    /// A reserve of the numbers 5 to 7, and a time before they were reserved.
    fn filled() -> (SharedReserve, Instant) {
        let (reserve, before) = (SharedReserve::default(), Instant::now());
        let mut numbers = reserve.take(&[(TENANT, 3)], 2026, before);
        assert_eq!(numbers.missing(&[(TENANT, 3)]), [(TENANT, 3)]);
        assert!(numbers.add(vec![(TENANT, 5..=7)]));
        (reserve, before)
    }

    #[test]
    fn a_connection_newer_than_the_reservation_gets_no_reserved_numbers() {
        let (reserve, before) = filled();
        let held = reserve.take(&[(TENANT, 1)], 2026, before);
        let reconnected = Instant::now() + Duration::from_secs(1);
        assert_eq!(taken(&mut reserve.take(&[(TENANT, 3)], 2026, reconnected)), [0; 0]);
        // What a unit from before the crash gives back later is not taken, either.
        drop(held);
        assert_eq!(taken(&mut reserve.take(&[(TENANT, 3)], 2026, reconnected)), [0; 0]);
    }

    #[test]
    fn a_unit_that_needs_no_number_leaves_the_reserve_as_it_is() {
        let (reserve, before) = filled();
        drop(reserve.take(&[], 2026, Instant::now() + Duration::from_secs(1)));
        assert_eq!(taken(&mut reserve.take(&[(TENANT, 3)], 2026, before)), [5, 6, 7]);
    }
}
