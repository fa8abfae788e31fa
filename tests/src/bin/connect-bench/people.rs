//! The people that events are about: a pool of 20,000 with email, phone and external id, part of them on company
//! domains.

use std::sync::LazyLock;
use uuid::Uuid;

/// People in the pool.
pub(crate) const POOL: usize = 20_000;
/// Companies that the tenant has an account for.
pub(crate) const COMPANIES: usize = 200;
/// People at the beginning of the pool who plan trips: all enquiries, bookings and discoveries are theirs.
pub(crate) const TRIP_PLANNERS: usize = 5_000;
/// How the pool's addresses are composed, in words.
pub(crate) const COMPOSITION: &str = "20,000 people, each with email, phone and external id: 30 % on 200 domains with a company account, \
     20 % on 200 domains without one, 50 % on free mailboxes";

/// A person that events are about.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) email: String,
    pub(crate) phone: Option<String>,
    pub(crate) phone_digits: Option<String>,
    pub(crate) external_id: Option<String>,
    /// `actor` of an envelope.
    pub(crate) actor: String,
    /// The client in the floor's tables.
    pub(crate) floor_client: Uuid,
}

/// Person `number` of the pool.
pub(crate) fn person(number: usize) -> &'static Person {
    static PEOPLE: LazyLock<Vec<Person>> = LazyLock::new(|| (0..POOL).map(Person::of_pool).collect());
    &PEOPLE[number]
}

/// The domain of a company account.
pub(crate) fn company_domain(number: usize) -> String {
    format!("company-{number}.example")
}

impl Person {
    fn of_pool(number: usize) -> Self {
        let domain = match number % 10 {
            0..=2 => company_domain(number / 10 % COMPANIES),
            3..=4 => format!("office-{}.example", number / 10 % COMPANIES),
            _ => "gmail.com".to_owned(),
        };
        let email = format!("traveller.{number}@{domain}");
        let digits = format!("919{number:09}");
        let phone = format!("+{digits}");
        let external_id = format!("crm-contact-{number:07}");
        let actor = format!(
            r#"{{"type":"contact","email":"{email}","phone":"{phone}","externalId":"{external_id}","name":"Traveller Number {number}"}}"#
        );
        Self {
            email,
            phone: Some(phone),
            phone_digits: Some(digits),
            external_id: Some(external_id),
            actor,
            floor_client: Uuid::from_u64_pair(number as u64, 1),
        }
    }

    /// A person outside of the pool, of whom only an email is known.
    pub(crate) fn with_email(number: u64) -> Self {
        let email = format!("simple.{number}@example.net");
        let actor = format!(r#"{{"type":"contact","email":"{email}","name":"Bench Traveller"}}"#);
        Self {
            email,
            phone: None,
            phone_digits: None,
            external_id: None,
            actor,
            floor_client: Uuid::now_v7(),
        }
    }
}
