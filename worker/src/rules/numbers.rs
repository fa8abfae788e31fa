//! Enquiry numbers: which events may need one, and the block that was reserved for a unit of work.

use super::InternalError;
use common::event::InboundType;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Enquiry numbers of one year that were reserved for one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberBlock {
    year: i32,
    numbers: VecDeque<i32>,
}

impl NumberBlock {
    /// A block of numbers of one year, which are taken in this order.
    pub fn new(year: i32, numbers: impl IntoIterator<Item = i32>) -> Self {
        Self { year, numbers: numbers.into_iter().collect() }
    }

    /// Takes the next number: its year and its sequence.
    pub(crate) fn take(&mut self) -> Result<(i32, i32), InternalError> {
        let sequence = self.numbers.pop_front();
        Ok((self.year, sequence.ok_or(InternalError("the unit has reserved enough enquiry numbers"))?))
    }

    /// Appends numbers. Returns `false` and appends none if they are not higher than the last one: numbers that are
    /// reserved later must be higher.
    #[must_use]
    pub(crate) fn extend(&mut self, numbers: RangeInclusive<i32>) -> bool {
        let is_later = self.numbers.back().is_none_or(|last| last < numbers.start());
        if is_later {
            self.numbers.extend(numbers);
        }
        is_later
    }

    /// How many numbers are left.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) const fn year(&self) -> i32 {
        self.year
    }

    /// The numbers that were not taken.
    pub(crate) fn into_rest(self) -> impl Iterator<Item = i32> {
        self.numbers.into_iter()
    }
}

/// Whether an event of this type can open a lead, and with it take an enquiry number.
pub(crate) const fn can_open_lead(kind: InboundType) -> bool {
    match kind {
        InboundType::EnquirySubmitted | InboundType::DiscoveryUpserted => true,
        InboundType::ContactIdentified
        | InboundType::ContactUpdated
        | InboundType::TripPlanningStarted
        | InboundType::TripDraftUpdated
        | InboundType::QuoteRequested
        | InboundType::BookingStarted
        | InboundType::BookingAbandoned
        | InboundType::BookingCompleted
        | InboundType::BookingCreditApplied
        | InboundType::EmployeeCreditUpdated => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_in_order_and_unused_ones_are_returned() {
        let mut block = NumberBlock::new(2026, [3, 7, 8]);
        assert_eq!(block.take(), Ok((2026, 3)));
        assert_eq!(block.clone().into_rest().collect::<Vec<_>>(), [7, 8]);
        assert_eq!((block.take(), block.take()), (Ok((2026, 7)), Ok((2026, 8))));
        assert!(block.take().is_err());
    }

    #[test]
    fn a_block_refuses_a_number_that_it_holds() {
        let mut block = NumberBlock::new(2026, [5, 6]);
        assert!(!block.extend(5..=7) && !block.extend(6..=6) && !block.extend(1..=2));
        assert!(block.extend(7..=8));
        assert_eq!(block.into_rest().collect::<Vec<_>>(), [5, 6, 7, 8]);
    }
}
