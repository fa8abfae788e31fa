//! Clients, their rosters and company accounts.

use chrono::{DateTime, Utc};
use common::model::{ClientId, Email, Phone};
use common::record::Traveler;
use common::view::TravelerView;

/// Whether a client is a person or a company account (D13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientType {
    /// A traveller.
    Individual,
    /// A company account.
    Company,
}

impl ClientType {
    /// The name on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Individual => "individual",
            Self::Company => "company",
        }
    }
}

/// A client.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Its id.
    pub id: ClientId,
    /// Full name.
    pub name: String,
    /// Strongest identity.
    pub email: Option<Email>,
    /// Weakest identity.
    pub phone: Option<Phone>,
    /// Label; the account's name for its people.
    pub company: Option<String>,
    /// Caller's own id.
    pub external_id: Option<String>,
    /// Marketing consent.
    pub marketing_opt_in: bool,
    /// Person or company account.
    pub client_type: ClientType,
    /// Mail domain of a company account.
    pub company_domain: Option<String>,
    /// The company account a person belongs to.
    pub account_id: Option<ClientId>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Its version (D19).
    pub updated_at: DateTime<Utc>,
}

/// The roster of a client, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Roster {
    /// The client.
    pub client_id: ClientId,
    /// Its travelers, as they are shown.
    pub travelers: Vec<TravelerView>,
}

impl Roster {
    /// What a body's travelers are stored as.
    pub fn from_body(sent: &[Traveler]) -> Vec<TravelerView> {
        let stored = |traveler: &Traveler| TravelerView {
            name: traveler.name.as_str().to_owned(),
            kind: traveler.kind.as_str().to_owned(),
            age: traveler.age.get().and_then(|age| i16::try_from(age.get()).ok()),
            email: traveler.email.get().map(|email| email.as_str().to_owned()),
            phone: traveler.phone.get().map(|phone| phone.as_str().to_owned()),
        };
        sent.iter().map(stored).collect()
    }
}

/// A colleague on a company account.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountContact {
    /// The account.
    pub account_id: ClientId,
    /// The colleague's address.
    pub email: Email,
    /// Full name.
    pub name: Option<String>,
    /// As sent.
    pub phone: Option<Phone>,
    /// The colleague's own client, where there is one.
    pub client_id: Option<ClientId>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}
