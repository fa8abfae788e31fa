//! Enquiry numbers: reserved before it is known how many a unit takes, and kept for the next one when it took fewer.
//!
//! Reserving is a transaction of its own, so that no unit waits for another's commit, and runs beside the unit's loads.
//! What is not taken stays in this process; what is in reserve when the process ends is never used, which leaves a gap.
//!
//! A counter is committed without waiting for the disk, so that a server that crashes may forget the last numbers that it
//! handed out, and hand them out again. A number from the reserve is therefore used only on a connection that is older than
//! its reservation: no connection survives a crash.

use crate::rules::NumberBlock;
use crate::store;
use common::db::{Database, TxError};
use common::model::TenantId;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most tenants and years with numbers in reserve, and most numbers of each; what exceeds it leaves a gap.
const TENANTS: usize = 10_000;
const NUMBERS: usize = 1_000;

/// The numbers that no unit holds.
#[derive(Debug, Default)]
struct Reserve {
    numbers: HashMap<(TenantId, i32), BTreeSet<i32>>,
    /// When the first of them was reserved, or earlier; `None` while there are none.
    since: Option<Instant>,
}

/// Hands out enquiry numbers. Cheap to clone.
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
    /// Reserves through `counters`.
    pub(super) fn new(counters: Database) -> Self {
        Self { counters, reserve: SharedReserve::default() }
    }

    /// The same reserve, filled through other connections.
    pub(super) fn on(&self, counters: Database) -> Self {
        Self { counters, reserve: self.reserve.clone() }
    }

    /// Numbers of `year` for each tenant: from the reserve, the lowest first, and what that lacks from the database. They are
    /// used on a connection that was made at `connected_at`.
    pub(super) async fn reserve(
        &self,
        wanted: &[(TenantId, usize)],
        year: i32,
        connected_at: Instant,
    ) -> Result<ReservedNumbers, TxError> {
        let mut numbers = self.reserve.take(wanted, year, connected_at);
        let added = self.raise_counters(&numbers.lacking(wanted), year).await?;
        if !numbers.add(added) {
            // A counter that hands out numbers for a second time has gone back: those in reserve are not reserved any more.
            numbers.blocks.clear();
            self.forget();
            let added = self.raise_counters(&numbers.lacking(wanted), year).await?;
            if !numbers.add(added) {
                return Err(TxError::Abandoned("a counter handed out an enquiry number twice".to_owned()));
            }
        }
        Ok(numbers)
    }

    async fn raise_counters(
        &self,
        lacking: &[(TenantId, i32)],
        year: i32,
    ) -> Result<Vec<(TenantId, RangeInclusive<i32>)>, TxError> {
        if lacking.is_empty() {
            return Ok(Vec::new());
        }
        let counts: HashMap<TenantId, i32> = lacking.iter().copied().collect();
        let year = i16::try_from(year).unwrap_or(i16::MAX);
        let raised = store::reserve_numbers(&self.counters, lacking, year).await?;
        let range = |(tenant, last): (TenantId, i32)| {
            let count = counts.get(&tenant).copied().unwrap_or_default();
            (tenant, last - count + 1..=last)
        };
        Ok(raised.into_iter().map(range).collect())
    }

    /// Gives up what is in reserve.
    pub(super) fn forget(&self) {
        *self.reserve.lock() = Reserve::default();
    }
}

impl SharedReserve {
    fn take(&self, wanted: &[(TenantId, usize)], year: i32, connected_at: Instant) -> ReservedNumbers {
        let mut reserve = self.lock();
        if reserve.since.is_some_and(|since| since < connected_at) {
            *reserve = Reserve::default();
        }
        let since = reserve.since.unwrap_or_else(Instant::now);
        let mut blocks = HashMap::with_capacity(wanted.len());
        for (tenant, count) in wanted {
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

    /// Keeps what was not taken.
    fn give_back(&self, blocks: impl Iterator<Item = (TenantId, NumberBlock)>, since: Instant) {
        let mut reserve = self.lock();
        if reserve.numbers.len() > TENANTS {
            *reserve = Reserve::default();
        }
        for (tenant, block) in blocks {
            let year = block.year();
            let mut rest = block.into_rest().peekable();
            if rest.peek().is_some() {
                let numbers = reserve.numbers.entry((tenant, year)).or_default();
                let room = NUMBERS.saturating_sub(numbers.len());
                numbers.extend(rest.take(room));
                reserve.since = Some(reserve.since.map_or(since, |earlier| earlier.min(since)));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reserve> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReservedNumbers {
    /// A tenant's numbers; none where it was not reserved any.
    pub(super) fn of(&mut self, tenant: TenantId) -> &mut NumberBlock {
        self.blocks.entry(tenant).or_default()
    }

    fn lacking(&self, wanted: &[(TenantId, usize)]) -> Vec<(TenantId, i32)> {
        let lacking = |(tenant, count): &(TenantId, usize)| {
            let lacking = count.saturating_sub(self.blocks.get(tenant).map_or(0, NumberBlock::len));
            (lacking > 0).then(|| (*tenant, i32::try_from(lacking).unwrap_or(i32::MAX)))
        };
        wanted.iter().filter_map(lacking).collect()
    }

    /// Adds numbers. `false` when some of them are there already.
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
        self.reserve.give_back(self.blocks.drain(), self.since);
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
        assert_eq!(numbers.lacking(&[(TENANT, 3)]), [(TENANT, 3)]);
        assert!(numbers.add(vec![(TENANT, 5..=7)]));
        (reserve, before)
    }

    #[test]
    fn numbers_that_were_not_taken_go_back_however_the_unit_ends() {
        let (reserve, before) = filled();
        let mut numbers = reserve.take(&[(TENANT, 2)], 2026, before);
        assert_eq!(numbers.of(TENANT).take(), Ok((2026, 5)));
        drop(numbers);
        assert_eq!(taken(&mut reserve.take(&[(TENANT, 9)], 2026, before)), [6, 7]);
        assert_eq!(taken(&mut reserve.take(&[(TENANT, 9)], 2026, before)), [0; 0]);
    }

    #[test]
    fn a_connection_that_is_younger_than_the_reservation_takes_nothing_from_the_reserve() {
        let (reserve, before) = filled();
        let held = reserve.take(&[(TENANT, 1)], 2026, before);
        let reconnected = Instant::now() + Duration::from_secs(1);
        assert_eq!(taken(&mut reserve.take(&[(TENANT, 3)], 2026, reconnected)), [0; 0]);
        // What a unit from before the crash gives back later is not taken, either.
        drop(held);
        assert_eq!(taken(&mut reserve.take(&[(TENANT, 3)], 2026, reconnected)), [0; 0]);
    }

    #[test]
    fn a_counter_that_has_gone_back_is_noticed() {
        let (reserve, before) = filled();
        let mut numbers = reserve.take(&[(TENANT, 4)], 2026, before);
        assert_eq!(numbers.lacking(&[(TENANT, 4)]), [(TENANT, 1)]);
        assert!(!numbers.add(vec![(TENANT, 6..=6)]), "6 is there");
        assert!(numbers.add(vec![(TENANT, 8..=8)]));
        assert_eq!(taken(&mut numbers), [5, 6, 7, 8]);
    }
}
