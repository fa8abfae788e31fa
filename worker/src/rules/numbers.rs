//! Enquiry numbers: how many a unit of work needs, and taking them from the block reserved for it.

mod persons;

use super::contact::{self, Key};
use super::{Event, InternalError};
use crate::state::TenantState;
use common::event::InboundType;
use persons::Persons;
use std::collections::HashSet;

/// Consecutive enquiry numbers of one year that were reserved for one agency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberBlock {
    year: i32,
    next: i32,
    end: i32,
}

impl NumberBlock {
    /// `count` numbers from `first` on.
    pub fn new(year: i32, first: i32, count: usize) -> Self {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        Self { year, next: first, end: first.saturating_add(count) }
    }

    /// The next number: its year and its sequence.
    pub fn take(&mut self) -> Result<(i32, i32), InternalError> {
        if self.next >= self.end {
            return Err(InternalError("enough enquiry numbers are reserved"));
        }
        let sequence = self.next;
        self.next += 1;
        Ok((self.year, sequence))
    }
}

/// How many enquiry numbers these events can take, applied to this state in this order. Never too few, and
/// exact unless a booking of the same person, or another identity of theirs, in the same unit leaves it open
/// which enquiry a discovery event finds.
pub fn opens_wanted(state: &TenantState, events: &[Event<'_>]) -> usize {
    let fresh = fresh(state, events);
    let count = |kind| fresh.iter().filter(|event| event.envelope.event_type == kind).count();
    let submitted = count(InboundType::EnquirySubmitted);
    if count(InboundType::DiscoveryUpserted) == 0 {
        return submitted;
    }
    submitted + discovery_opens(state, &fresh)
}

fn discovery_opens(state: &TenantState, fresh: &[&Event<'_>]) -> usize {
    let unsure = Unsure::of(state, fresh);
    let mut has_open: HashSet<Key<'_>> = HashSet::new();
    let mut wanted = 0;
    for event in fresh {
        let Some(key) = event.identity().key() else { continue };
        match opening(event) {
            Opening::Always => {
                has_open.insert(key);
            }
            Opening::WithoutOpenLead => {
                let surely_found =
                    !unsure.of_event(event) && (has_open.contains(&key) || has_open_lead(state, event));
                wanted += usize::from(!surely_found);
                has_open.insert(key);
            }
            Opening::Never => {}
        }
    }
    wanted
}

/// When an event opens an enquiry.
enum Opening {
    Always,
    WithoutOpenLead,
    Never,
}

fn opening(event: &Event<'_>) -> Opening {
    match event.envelope.event_type {
        InboundType::EnquirySubmitted => Opening::Always,
        InboundType::DiscoveryUpserted => Opening::WithoutOpenLead,
        InboundType::ContactIdentified
        | InboundType::ContactUpdated
        | InboundType::TripPlanningStarted
        | InboundType::TripDraftUpdated
        | InboundType::QuoteRequested
        | InboundType::BookingStarted
        | InboundType::BookingAbandoned
        | InboundType::BookingCompleted
        | InboundType::BookingCreditApplied
        | InboundType::EmployeeCreditUpdated => Opening::Never,
    }
}

/// The events that will not be duplicates. A repeat of an event that can fail may still be accepted.
fn fresh<'e, 'a>(state: &TenantState, events: &'e [Event<'a>]) -> Vec<&'e Event<'a>> {
    let mut applied = HashSet::new();
    let is_fresh = |event: &&'e Event<'a>| {
        let kind = event.envelope.event_type;
        let id = event.envelope.event_id.as_str();
        let repeated = state.ledger.contains_key(id) || applied.contains(id);
        if kind != InboundType::ContactUpdated && !kind.needs_credit_scope() {
            applied.insert(id);
        }
        !repeated
    };
    events.iter().filter(is_fresh).collect()
}

fn has_open_lead(state: &TenantState, event: &Event<'_>) -> bool {
    contact::find(state, &event.identity()).is_some_and(|client| state.open_lead(client.id).is_some())
}

/// Persons of whom it can't be told beforehand which enquiry is open when: a booking may close theirs, or
/// what matches them may move to another client.
struct Unsure<'a> {
    persons: Persons<'a>,
    booked: HashSet<usize>,
    keys: HashSet<(usize, Key<'a>)>,
}

impl<'a> Unsure<'a> {
    fn of(state: &'a TenantState, fresh: &[&'a Event<'_>]) -> Self {
        let persons = Persons::of(state, fresh.iter().map(|event| event.identity()));
        let (mut booked, mut keys) = (HashSet::new(), HashSet::new());
        for event in fresh {
            let Some((person, key)) = persons.of_identity(&event.identity()) else { continue };
            keys.insert((person, key));
            if event.envelope.event_type == InboundType::BookingCompleted {
                booked.insert(person);
            }
        }
        Self { persons, booked, keys }
    }

    /// An email stays with its client. An external id or a phone may move when the person is also named
    /// otherwise.
    fn of_event(&self, event: &'a Event<'_>) -> bool {
        let Some((person, key)) = self.persons.of_identity(&event.identity()) else { return true };
        let may_move = !matches!(key, Key::Email(_));
        self.booked.contains(&person)
            || may_move && self.keys.iter().filter(|(of, _)| *of == person).count() > 1
    }
}

#[cfg(test)]
mod tests;
