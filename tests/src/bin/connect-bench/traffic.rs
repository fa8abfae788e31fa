//! The traffic: which events are sent, in which shares, and about whom.

use crate::event_kinds::EventKind;
use crate::people::{POOL, Person, TRIP_PLANNERS, person};
use crate::random::Random;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// An event to be sent, or to be written by a floor.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) kind: EventKind,
    pub(crate) person: Cow<'static, Person>,
    pub(crate) payload: String,
}

/// The kind of events that a load sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// `contact.identified` of the pool, drawn at random.
    Identified,
    /// Every ordinary type, of the pool, drawn at random.
    Mix,
    /// `enquiry.submitted` of the pool, drawn at random.
    Enquiries,
    /// `traveller.discovery_upserted` of the pool, drawn at random.
    Discoveries,
    /// `contact.identified` with an email only; each address is sent twice, in batches far apart.
    Simple,
}

/// Shares of the mix, in percent.
const MIX: [(EventKind, usize); 10] = [
    (EventKind::Identified, 45),
    (EventKind::Updated, 15),
    (EventKind::Enquiry, 10),
    (EventKind::PlanningStarted, 7),
    (EventKind::DraftUpdated, 7),
    (EventKind::QuoteRequested, 6),
    (EventKind::BookingStarted, 2),
    (EventKind::BookingAbandoned, 2),
    (EventKind::BookingCompleted, 1),
    (EventKind::Discovery, 5),
];

impl Traffic {
    /// The next `count` events.
    pub(crate) fn draw(self, count: usize, random: &mut Random) -> Vec<Event> {
        (0..count).map(|_| self.next(random)).collect()
    }

    fn next(self, random: &mut Random) -> Event {
        match self {
            Self::Identified => Event::new(EventKind::Identified, person(random.below(POOL)), random),
            Self::Enquiries => Event::new(EventKind::Enquiry, person(random.below(POOL)), random),
            Self::Discoveries => {
                let kind = EventKind::Discovery;
                Event::new(kind, person(random.below(people_of(kind))), random)
            }
            Self::Mix => {
                let kind = mixed(random.below(100));
                Event::new(kind, person(random.below(people_of(kind))), random)
            }
            Self::Simple => Event::of(EventKind::Identified, Cow::Owned(next_simple()), random),
        }
    }

    /// Its composition as text.
    pub(crate) fn composition(self) -> String {
        match self {
            Self::Identified => "contact.identified of the pool".to_owned(),
            Self::Enquiries => "enquiry.submitted of the pool".to_owned(),
            Self::Discoveries => "traveller.discovery_upserted of the pool".to_owned(),
            Self::Simple => "contact.identified with an email only, each address twice".to_owned(),
            Self::Mix => MIX
                .iter()
                .map(|(kind, share)| format!("{share} % {}", kind.name()))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    /// Mean size of an event, in bytes.
    pub(crate) fn event_bytes(self) -> usize {
        let events = self.draw(1_000, &mut Random::new());
        body(&events, "acme").len() / events.len()
    }
}

impl Event {
    pub(crate) fn new(kind: EventKind, person: &'static Person, random: &mut Random) -> Self {
        Self::of(kind, Cow::Borrowed(person), random)
    }

    fn of(kind: EventKind, person: Cow<'static, Person>, random: &mut Random) -> Self {
        let id = random.uuid().to_string();
        let payload = kind.payload(&id);
        Self { id, kind, person, payload }
    }
}

/// The batch as a partner sends it.
pub(crate) fn body(events: &[Event], tenant: &str) -> String {
    let mut body = String::with_capacity(events.len() * 700 + 16);
    body.push_str(r#"{"events":["#);
    for (position, Event { id, kind, person, payload }) in events.iter().enumerate() {
        let (comma, kind, actor) = (if position == 0 { "" } else { "," }, kind.name(), &person.actor);
        let written = write!(
            body,
            r#"{comma}{{"specVersion":"1.0","eventId":"{id}","eventType":"{kind}","occurredAt":"2026-05-01T10:00:00Z","tenant":"{tenant}","origin":"website","actor":{actor},"payload":{payload}}}"#
        );
        written.expect("writing to a string");
    }
    body.push_str("]}");
    body
}

fn mixed(percentile: usize) -> EventKind {
    let mut rest = percentile;
    for (kind, share) in MIX {
        if rest < share {
            return kind;
        }
        rest -= share;
    }
    EventKind::Identified
}

/// How many people of the pool, from its beginning, send this type.
const fn people_of(kind: EventKind) -> usize {
    match kind {
        EventKind::Enquiry
        | EventKind::BookingStarted
        | EventKind::BookingAbandoned
        | EventKind::BookingCompleted
        | EventKind::Discovery => TRIP_PLANNERS,
        EventKind::Identified
        | EventKind::Updated
        | EventKind::PlanningStarted
        | EventKind::DraftUpdated
        | EventKind::QuoteRequested => POOL,
    }
}

/// Consecutive events are about different people: a person's second event is in a later batch.
fn next_simple() -> Person {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Person::with_email(if number.is_multiple_of(2) { number } else { number.saturating_sub(1_001) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_shares_add_up_to_a_hundred_percent() {
        assert_eq!(MIX.iter().map(|(_, share)| share).sum::<usize>(), 100);
    }

    #[test]
    fn draws_only_valid_batches() {
        let mut random = Random::new();
        for traffic in
            [Traffic::Identified, Traffic::Mix, Traffic::Enquiries, Traffic::Discoveries, Traffic::Simple]
        {
            let body = body(&traffic.draw(100, &mut random), "acme");
            let read = common::event::parse_batch(body.as_bytes(), "acme").expect("a valid batch");
            assert_eq!(read.len(), 100);
        }
    }
}
