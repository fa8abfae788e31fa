//! Reads of records, from the database for reads. A record of another agency isn't there.

use crate::error::Refusal;
use crate::lookups::{Kind, Lookups, Source, unanswered};
use crate::outage::Outage;
use crate::store::{self, Unreadable, clients, leads, trips};
use common::db::Database;
use common::limited;
use common::log_limit::LogLimit;
use common::model::{ClientId, LeadId, TenantId};
use common::view::{ClientView, LeadView, TripView};
use common::write::WriteRefusal;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// Which records that can't be read are logged.
static UNREADABLE: LogLimit<1> = LogLimit::new();

/// What a look-up of clients compares, in the form that is stored (D10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientKey {
    /// Trimmed and lower case.
    Email(String),
    /// Trimmed.
    ExternalId(String),
    /// Digits only.
    Phone(String),
}

impl ClientKey {
    /// The first of the three that says anything (specification: GET /clients); `None` when none does.
    pub fn first(email: Option<String>, external_id: Option<String>, phone: Option<&str>) -> Option<Self> {
        let digits = |phone: &str| phone.chars().filter(char::is_ascii_digit).collect::<String>();
        email
            .map(|email| Self::Email(email.trim().to_lowercase()))
            .or(external_id.map(|id| Self::ExternalId(id.trim().to_owned())))
            .or_else(|| phone.map(digits).filter(|digits| !digits.is_empty()).map(Self::Phone))
    }
}

/// The records.
#[derive(Debug)]
pub struct Reads {
    source: Source,
    clients: Lookups<ClientView>,
    leads: Lookups<LeadView>,
    trips: Lookups<Option<TripView>>,
}

impl Reads {
    /// Records in `db`, which has that many `connections`; a statement may take `within`.
    pub fn start(db: Database, connections: usize, within: Duration) -> Self {
        let outage = Arc::new(Outage::new("records reads"));
        let source = Source { db, most: connections, within, outage };
        let clients = Kind { statement: clients::BY_IDS, view: clients::view };
        let leads = Kind { statement: leads::BY_IDS, view: leads::view };
        let trips = Kind { statement: trips::OF_LEADS, view: trips::view };
        Self {
            clients: Lookups::start(clients, source.clone()),
            leads: Lookups::start(leads, source.clone()),
            trips: Lookups::start(trips, source.clone()),
            source,
        }
    }

    /// A client. 404 when there is none; as everywhere here, 503 `replay_store_unavailable` when the database doesn't
    /// answer until `deadline`.
    pub async fn client(
        &self,
        tenant: TenantId,
        id: ClientId,
        deadline: Instant,
    ) -> Result<ClientView, Refusal> {
        self.clients.find(tenant, id.0, deadline).await?.ok_or_else(not_found)
    }

    /// The client with that identity: none or one.
    pub async fn find_client(
        &self,
        tenant: TenantId,
        key: &ClientKey,
        deadline: Instant,
    ) -> Result<Vec<ClientView>, Refusal> {
        let (statement, value) = match key {
            ClientKey::Email(email) => (clients::BY_EMAIL, email),
            ClientKey::ExternalId(id) => (clients::BY_EXTERNAL_ID, id),
            ClientKey::Phone(digits) => (clients::BY_PHONE, digits),
        };
        let rows = self.ask(statement, &[&tenant.0, value], deadline).await?;
        views(&rows, clients::view)
    }

    /// An enquiry. 404 when there is none.
    pub async fn lead(&self, tenant: TenantId, id: LeadId, deadline: Instant) -> Result<LeadView, Refusal> {
        self.leads.find(tenant, id.0, deadline).await?.ok_or_else(not_found)
    }

    /// The enquiries with that id of the caller's, the newest first.
    pub async fn find_leads(
        &self,
        tenant: TenantId,
        external_id: &str,
        deadline: Instant,
    ) -> Result<Vec<LeadView>, Refusal> {
        let rows = self.ask(leads::BY_EXTERNAL_ID, &[&tenant.0, &external_id], deadline).await?;
        views(&rows, leads::view)
    }

    /// The trip of an enquiry. 404 when there is no enquiry, 409 `trip_not_open` when it has no trip.
    pub async fn trip(&self, tenant: TenantId, id: LeadId, deadline: Instant) -> Result<TripView, Refusal> {
        let trip = self.trips.find(tenant, id.0, deadline).await?.ok_or_else(not_found)?;
        trip.ok_or(Refusal::Write(WriteRefusal::TripNotOpen))
    }

    async fn ask(
        &self,
        statement: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
        deadline: Instant,
    ) -> Result<Vec<Row>, Refusal> {
        let rows = store::ask(&self.source.db, deadline, async |client| {
            let statement = client.prepare_cached(statement).await?;
            client.query(&statement, parameters).await
        })
        .await
        .map_err(|error| unanswered(&self.source.outage, &error))?;
        self.source.outage.worked();
        Ok(rows)
    }
}

fn views<V>(rows: &[Row], view: impl Fn(&Row) -> Result<V, Unreadable>) -> Result<Vec<V>, Refusal> {
    rows.iter().map(view).collect::<Result<_, _>>().map_err(|error| {
        limited!(UNREADABLE[0], error, %error, "a record can't be read");
        Refusal::Internal
    })
}

const fn not_found() -> Refusal {
    Refusal::Write(WriteRefusal::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_identity_that_says_anything_is_looked_up_in_its_stored_form() {
        let first = |email: &str, id: &str, phone: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            ClientKey::first(some(email), some(id), some(phone).as_deref())
        };
        assert_eq!(first(" Ana@B.C ", "x", "1"), Some(ClientKey::Email("ana@b.c".to_owned())));
        assert_eq!(first("", "X 1", "1"), Some(ClientKey::ExternalId("X 1".to_owned())));
        assert_eq!(first("", "", " (030) 1-2"), Some(ClientKey::Phone("03012".to_owned())));
        assert_eq!(first("", "", "n/a"), None);
    }
}
