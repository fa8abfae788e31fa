//! The traffic: which events come, in which shares, about whom.

use crate::kinds::Kind;
use crate::people::{PLANNING, POOL, Person, person};
use crate::random::Random;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// An event to be sent, or to be written by a floor.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) person: Cow<'static, Person>,
    pub(crate) payload: String,
}

/// What is sent.
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
    /// `contact.identified` with an email only; each address comes twice, in batches far apart.
    Simple,
}

/// Shares of the mix, in percent.
const MIX: [(Kind, usize); 10] = [
    (Kind::Identified, 45),
    (Kind::Updated, 15),
    (Kind::Enquiry, 10),
    (Kind::PlanningStarted, 7),
    (Kind::DraftUpdated, 7),
    (Kind::QuoteRequested, 6),
    (Kind::BookingStarted, 2),
    (Kind::BookingAbandoned, 2),
    (Kind::BookingCompleted, 1),
    (Kind::Discovery, 5),
];

impl Traffic {
    /// The next `count` events.
    pub(crate) fn draw(self, count: usize, random: &mut Random) -> Vec<Event> {
        (0..count).map(|_| self.next(random)).collect()
    }

    fn next(self, random: &mut Random) -> Event {
        match self {
            Self::Identified => Event::new(Kind::Identified, person(random.below(POOL)), random),
            Self::Enquiries => Event::new(Kind::Enquiry, person(random.below(POOL)), random),
            Self::Discoveries => {
                let kind = Kind::Discovery;
                Event::new(kind, person(random.below(people_of(kind))), random)
            }
            Self::Mix => {
                let kind = mixed(random.below(100));
                Event::new(kind, person(random.below(people_of(kind))), random)
            }
            Self::Simple => Event::of(Kind::Identified, Cow::Owned(next_simple()), random),
        }
    }

    /// What it consists of, in words.
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
    pub(crate) fn new(kind: Kind, person: &'static Person, random: &mut Random) -> Self {
        Self::of(kind, Cow::Borrowed(person), random)
    }

    fn of(kind: Kind, person: Cow<'static, Person>, random: &mut Random) -> Self {
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

fn mixed(percentile: usize) -> Kind {
    let mut rest = percentile;
    for (kind, share) in MIX {
        if rest < share {
            return kind;
        }
        rest -= share;
    }
    Kind::Identified
}

/// How many people of the pool, from its beginning, send this type.
const fn people_of(kind: Kind) -> usize {
    match kind {
        Kind::Enquiry
        | Kind::BookingStarted
        | Kind::BookingAbandoned
        | Kind::BookingCompleted
        | Kind::Discovery => PLANNING,
        Kind::Identified
        | Kind::Updated
        | Kind::PlanningStarted
        | Kind::DraftUpdated
        | Kind::QuoteRequested => POOL,
    }
}

/// Neighbours are different people: the second event of one comes in a later batch.
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
