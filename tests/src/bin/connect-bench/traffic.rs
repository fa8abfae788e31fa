//! The traffic: which events are sent, in which shares, and about whom. The payloads fill an event up to about 600 bytes.

use std::fmt::Write;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::iter::repeat_n;
use std::sync::LazyLock;
use uuid::{Builder, Uuid};

/// People that events are about: they are drawn at random, so consecutive batches are about the same people.
const POOL: usize = 20_000;
/// Companies that the tenant has an account for.
pub(crate) const COMPANIES: usize = 200;
/// People at the beginning of the pool who plan trips: all enquiries, bookings and discoveries are theirs.
const TRIP_PLANNERS: usize = 5_000;

const BROWSING: &str = r#"{"source":"newsletter","page":"/journeys/kerala-backwaters","interests":["houseboat","ayurveda","spice gardens"],"locale":"en-IN","sessions":4,"lastSeen":"2026-05-01T09:58:12Z","consent":{"email":true,"sms":false},"device":{"type":"mobile","os":"Android"}}"#;
const PLANNING: &str = r#"{"draft":{"title":"Backwaters and hills","days":7,"stops":["Kochi","Munnar","Thekkady","Alleppey"],"adults":2,"children":1},"page":"/planner","locale":"en-IN","sessions":4,"savedAt":"2026-05-01T09:58:12Z","device":{"type":"mobile","os":"Android"}}"#;
const QUOTE: &str = r#"{"quote":{"package":"kerala-backwaters-7n","adults":2,"children":1,"rooms":1,"startDate":"2026-11-02"},"page":"/journeys/kerala-backwaters","locale":"en-IN","sessions":4,"askedAt":"2026-05-01T09:58:12Z","device":{"type":"mobile","os":"Android"}}"#;
const BOOKING: &str = r#"{"package":"kerala-backwaters-7n","step":"payment","amount":84500,"currency":"INR","adults":2,"children":1,"locale":"en-IN","sessions":6,"at":"2026-05-01T09:58:12Z"}"#;
const BOOKED: &str = r#"{"bookingRef":"{id}","amount":84500,"currency":"INR","package":"kerala-backwaters-7n","adults":2,"children":1,"at":"2026-05-01T09:58:12Z"}"#;
const ENQUIRY: &str = r#"{"externalLeadId":"{id}","destination":"Kerala","travelDates":{"start":"2026-11-02","end":"2026-11-12"},"party":{"adults":2,"children":1,"rooms":1},"budget":{"amount":250000,"currency":"INR"},"attribution":{"source":"google","medium":"cpc","campaign":"monsoon"}}"#;
const DISCOVERY: &str = r#"{"discovery":{"destinationInterest":["Kerala","Goa"],"dateRange":{"start":"2026-11-02","end":"2026-11-12"},"pax":{"adults":2,"children":1},"tripNotes":"Slow travel, one houseboat night"},"profilePatch":{"constraints":{"diet":["vegetarian"]},"styleDefaults":{"pace":"slow"}}}"#;

/// Types of events: the share of the mix in percent, the people that they are about, and the payload, in which `{id}` is
/// the event's id, for values that must be unique.
type Kind = (&'static str, usize, usize, &'static str);

const IDENTIFIED: Kind = ("contact.identified", 45, POOL, BROWSING);
const SUBMITTED: Kind = ("enquiry.submitted", 10, TRIP_PLANNERS, ENQUIRY);
const MIX: [Kind; 10] = [
    IDENTIFIED,
    ("contact.updated", 15, POOL, BROWSING),
    SUBMITTED,
    ("trip.planning_started", 7, POOL, PLANNING),
    ("trip.draft_updated", 7, POOL, PLANNING),
    ("quote.requested", 6, POOL, QUOTE),
    ("booking.started", 2, TRIP_PLANNERS, BOOKING),
    ("booking.abandoned", 2, TRIP_PLANNERS, BOOKING),
    ("booking.completed", 1, TRIP_PLANNERS, BOOKED),
    ("traveller.discovery_upserted", 5, TRIP_PLANNERS, DISCOVERY),
];

/// The kind of events that a load sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    Identified,
    Enquiries,
    /// Every ordinary type.
    Mix,
}

/// An event to be sent, or to be written by a floor.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) kind: &'static str,
    pub(crate) person: &'static Person,
    pub(crate) payload: String,
}

/// A person of the pool, with email, phone and external id.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) email: String,
    pub(crate) phone_digits: String,
    pub(crate) external_id: String,
    /// The client in the floor's tables.
    pub(crate) floor_client: Uuid,
}

impl Traffic {
    /// The next `count` events.
    pub(crate) fn draw(self, count: usize) -> Vec<Event> {
        let next = |_| {
            let kind = match self {
                Self::Identified => IDENTIFIED,
                Self::Enquiries => SUBMITTED,
                // Each type as often as its share.
                Self::Mix => *MIX.iter().flat_map(|kind| repeat_n(kind, kind.1)).nth(below(100)).unwrap_or(&IDENTIFIED),
            };
            Event::new(kind, below(kind.2))
        };
        (0..count).map(next).collect()
    }
}

impl Event {
    fn new((kind, _, _, payload): Kind, person: usize) -> Self {
        let id = random_id().to_string();
        let payload = payload.replace("{id}", &id);
        Self { id, kind, person: &PEOPLE[person], payload }
    }
}

static PEOPLE: LazyLock<Vec<Person>> = LazyLock::new(|| (0..POOL).map(Person::new).collect());

impl Person {
    fn new(number: usize) -> Self {
        let domain = match number % 10 {
            0..=2 => format!("company-{}.example", number / 10 % COMPANIES),
            3..=4 => format!("office-{}.example", number / 10 % COMPANIES),
            _ => "gmail.com".to_owned(),
        };
        Self {
            email: format!("traveller.{number}@{domain}"),
            phone_digits: format!("919{number:09}"),
            external_id: format!("crm-contact-{number:07}"),
            floor_client: Uuid::from_u64_pair(number as u64, 1),
        }
    }
}

/// `contact.identified` of each person of the pool.
pub(crate) fn everybody() -> Vec<Event> {
    (0..POOL).map(|person| Event::new(IDENTIFIED, person)).collect()
}

/// The batch as a partner sends it.
pub(crate) fn body(events: &[Event], tenant: &str) -> String {
    let mut body = String::with_capacity(events.len() * 700 + 16);
    body.push_str(r#"{"events":["#);
    for (position, Event { id, kind, person, payload }) in events.iter().enumerate() {
        let Person { email, phone_digits, external_id, .. } = person;
        let comma = if position == 0 { "" } else { "," };
        let written = write!(
            body,
            r#"{comma}{{"specVersion":"1.0","eventId":"{id}","eventType":"{kind}","occurredAt":"2026-05-01T10:00:00Z","tenant":"{tenant}","origin":"website","actor":{{"type":"contact","email":"{email}","phone":"+{phone_digits}","externalId":"{external_id}","name":"Bench Traveller"}},"payload":{payload}}}"#
        );
        written.expect("writing to a string");
    }
    body.push_str("]}");
    body
}

/// What the traffic consists of, as Markdown.
pub(crate) fn description() -> String {
    let shares: Vec<String> = MIX.iter().map(|(kind, share, ..)| format!("{share} % {kind}")).collect();
    format!(
        "The mix is {}. An event has about 600 bytes. All events are about {POOL} people with email, phone and external id: 30 % on domains with a company account, 20 % on other domains, 50 % on free mailboxes.\n",
        shares.join(", ")
    )
}

/// A random id, as partners make them. No secret depends on it: each `RandomState` has other keys.
pub(crate) fn random_id() -> Uuid {
    let number = || u128::from(RandomState::new().build_hasher().finish());
    Builder::from_u128((number() << 64) | number()).with_version(uuid::Version::Random).into_uuid()
}

/// A random number below `bound`.
fn below(bound: usize) -> usize {
    (RandomState::new().build_hasher().finish() % bound as u64) as usize
}
