//! Look-ups of records for many requests in one statement.

use super::clients::ClientIdentity;
use super::deliveries::{self, FeedQuery};
use super::{clients, leads, trips};
use common::db::{Client, Sql, TxError, column};
use common::model::{ClientId, LeadId, TenantId};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// What a read asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordQuery {
    /// A client by its id.
    Client(ClientId),
    /// A lead by its id.
    Lead(LeadId),
    /// The trip of a lead.
    Trip(LeadId),
    /// The client with that identity.
    ClientBy(ClientIdentity),
    /// The leads with that external id.
    LeadsBy(String),
    /// A part of the feed of a subscription.
    Feed(FeedQuery),
}

/// A kind of record, by the tables that its look-ups read: where one is locked, those of this kind wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// `clients`, `travelers`.
    Client,
    /// `leads`, `trips`, `members`.
    Lead,
    /// `leads`, `trips`, `members`, `proposals`.
    Trip,
    /// `subscriptions`, `deliveries`, `outbox`.
    Feed,
}

impl RecordKind {
    pub(crate) const ALL: [Self; 4] = [Self::Client, Self::Lead, Self::Trip, Self::Feed];
}

/// What a read asks for, with the tenant of its caller. A record of another tenant is not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordLookup {
    /// The tenant of the caller.
    pub(crate) tenant: TenantId,
    pub(crate) query: RecordQuery,
}

/// The rows of one query, in their order. A failed statement fails all queries that it served.
pub(crate) type LookupRows = Result<Vec<Row>, Arc<TxError>>;

impl RecordQuery {
    /// What it looks up.
    pub(crate) const fn kind(&self) -> RecordKind {
        match self {
            Self::Client(_) | Self::ClientBy(_) => RecordKind::Client,
            Self::Lead(_) | Self::LeadsBy(_) => RecordKind::Lead,
            Self::Trip(_) => RecordKind::Trip,
            Self::Feed(_) => RecordKind::Feed,
        }
    }

    /// The statement that looks up the ids of many requests, and the id; `None` for a query by anything else.
    const fn by_id(&self) -> Option<(Sql, Uuid)> {
        match self {
            Self::Client(id) => Some((clients::BY_IDS, id.0)),
            Self::Lead(id) => Some((leads::BY_IDS, id.0)),
            Self::Trip(id) => Some((trips::OF_LEADS, id.0)),
            Self::ClientBy(_) | Self::LeadsBy(_) | Self::Feed(_) => None,
        }
    }

    /// Whether it shares its statement with other requests: not a long page of a feed, which would delay them.
    pub(crate) const fn is_shared(&self) -> bool {
        self.by_id().is_some() || matches!(self, Self::Feed(FeedQuery { limit: 1, .. }))
    }

    /// The statement that serves this query alone, and its parameter.
    fn own_statement(&self) -> Option<(Sql, &str)> {
        match self {
            Self::ClientBy(ClientIdentity::Email(email)) => Some((clients::BY_EMAIL, email)),
            Self::ClientBy(ClientIdentity::ExternalId(id)) => Some((clients::BY_EXTERNAL_ID, id)),
            Self::ClientBy(ClientIdentity::Phone(digits)) => Some((clients::BY_PHONE, digits)),
            Self::LeadsBy(external_id) => Some((leads::BY_EXTERNAL_ID, external_id)),
            Self::Client(_) | Self::Lead(_) | Self::Trip(_) | Self::Feed(_) => None,
        }
    }
}

/// Runs the queries of a group, which are of one kind, with one statement. Returns the rows of each request. Without a
/// response by `deadline` they fail as unavailable; the connection must not be reused then.
pub(crate) async fn find(client: &Client, lookups: &[&RecordLookup], deadline: Instant) -> Vec<LookupRows> {
    let kinds = || lookups.iter().map(|lookup| lookup.query.kind());
    debug_assert!(kinds().zip(kinds().skip(1)).all(|(one, next)| one == next), "a group is of one kind: {lookups:?}");
    if let [RecordLookup { tenant, query }] = lookups
        && let Some((statement, value)) = query.own_statement()
    {
        return vec![run(client, statement, &[&tenant.0, &value], deadline).await.map_err(Arc::new)];
    }
    let rows = match lookups.iter().find_map(|lookup| lookup.query.by_id()) {
        Some((statement, _)) => {
            let tenants = column(lookups, |lookup| lookup.tenant.0);
            let ids = column(lookups, |lookup| lookup.query.by_id().map_or(Uuid::nil(), |(_, id)| id));
            run(client, statement, &[&tenants, &ids], deadline).await
        }
        None => feeds(client, lookups, deadline).await,
    };
    match rows {
        Ok(rows) => distribute_rows(lookups.len(), rows),
        Err(error) => {
            let error = Arc::new(error);
            lookups.iter().map(|_| Err(Arc::clone(&error))).collect()
        }
    }
}

/// Reads parts of feeds.
async fn feeds<'l>(client: &Client, lookups: &[&'l RecordLookup], deadline: Instant) -> Result<Vec<Row>, TxError> {
    let of_feed = |lookup: &&'l RecordLookup| {
        let RecordQuery::Feed(query) = &lookup.query else { return None };
        Some((lookup.tenant.0, query))
    };
    let queries: Vec<(Uuid, &FeedQuery)> = lookups.iter().filter_map(of_feed).collect();
    if queries.is_empty() {
        return Ok(Vec::new());
    }
    let parameters: [&(dyn ToSql + Sync); 5] = [
        &column(&queries, |(tenant, _)| *tenant),
        &column(&queries, |(_, query)| query.key.as_str()),
        &column(&queries, |(_, query)| query.subscription),
        &column(&queries, |(_, query)| query.after),
        &column(&queries, |(_, query)| query.limit),
    ];
    run(client, deliveries::FEED, &parameters, deadline).await
}

async fn run(
    client: &Client, statement: Sql, parameters: &[&(dyn ToSql + Sync)], deadline: Instant,
) -> Result<Vec<Row>, TxError> {
    let ask = async {
        let statement = super::prepared(client, statement).await?;
        client.query(&statement, parameters).await
    };
    timeout_at(deadline, ask).await.map_or_else(|_| Err(TxError::no_response()), |rows| rows.map_err(TxError::from))
}

/// The rows of each of so many requests. A row's column `place` counts the statement's ids from 1.
fn distribute_rows(requests: usize, rows: Vec<Row>) -> Vec<LookupRows> {
    let mut found: Vec<Vec<Row>> = (0..requests).map(|_| Vec::new()).collect();
    for row in rows {
        if let Some(own) = index_of(row.try_get("place").unwrap_or(0)).and_then(|index| found.get_mut(index)) {
            own.push(row);
        }
    }
    found.into_iter().map(Ok).collect()
}

fn index_of(place: i64) -> Option<usize> {
    usize::try_from(place).ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_a_place_is_of_no_request() {
        assert_eq!([1, 3, 0, -1, i64::MIN].map(index_of), [Some(0), Some(2), None, None, None]);
    }
}
