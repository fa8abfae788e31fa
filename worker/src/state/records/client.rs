//! Clients, their rosters and company accounts.

use chrono::{DateTime, Utc};
use common::model::{ClientId, Email, Phone};
use common::record::Traveler;
use common::view::TravelerView;

common::named! {
    /// Whether a client is a person or a company account (D13). Names are those in the API and in the database.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ClientType {
        /// A person who travels.
        Individual = "individual",
        /// The account of a company, found by its mail domain.
        Company = "company",
    }
}

/// A client as the rules see it: a person or a company account.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) name: String,
    /// The identity that matching tries first (D10).
    pub(crate) email: Option<Email>,
    /// The identity that matching tries last (D10); clients may share it.
    pub(crate) phone: Option<Phone>,
    /// Name of the company; for people on a company account the account's name.
    pub(crate) company: Option<String>,
    /// The caller's own id of the client, unique within the tenant.
    pub(crate) external_id: Option<String>,
    pub(crate) marketing_opt_in: bool,
    pub(crate) client_type: ClientType,
    /// Mail domain of a company account.
    pub(crate) company_domain: Option<String>,
    /// The company account a person belongs to.
    pub(crate) account_id: Option<ClientId>,
    pub(crate) created_at: DateTime<Utc>,
    /// Also its version, from which the ETag is made (D19).
    pub(crate) updated_at: DateTime<Utc>,
}

/// The roster of a client: the travelers who belong to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Roster {
    pub(crate) client_id: ClientId,
    /// In the order in which they were sent.
    pub(crate) travelers: Vec<TravelerView>,
}

impl Roster {
    /// Converts the travelers of a request body.
    pub(crate) fn from_body(sent: &[Traveler]) -> Vec<TravelerView> {
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
pub(crate) struct AccountContact {
    pub(crate) account_id: ClientId,
    pub(crate) email: Email,
    pub(crate) name: Option<String>,
    pub(crate) phone: Option<Phone>,
    /// The colleague's own client, where there is one.
    pub(crate) client_id: Option<ClientId>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
}
