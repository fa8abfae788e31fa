//! Look-ups of records for many requests in one round trip.

use super::clients::ClientIdentity;
use super::deliveries::{self, FeedQuery};
use super::{clients, leads, trips};
use common::db::{Client, Sql, TxError, column};
use common::model::{ClientId, LeadId, TenantId};
use futures_util::future::{join_all, join3};
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

/// Runs the queries of many requests: one statement for each kind of record, all sent at once. Returns the rows of each
/// request. A query without a response by `deadline` fails as unavailable; the connection must not be reused then.
pub(crate) async fn find(client: &Client, lookups: &[&RecordLookup], deadline: Instant) -> Vec<LookupRows> {
    let kinds =
        [clients::BY_IDS, leads::BY_IDS, trips::OF_LEADS].map(|statement| by_ids(client, statement, lookups, deadline));
    let alone = lookups.iter().enumerate().filter_map(|(index, lookup)| {
        let (statement, value) = lookup.query.own_statement()?;
        Some(async move { (index, run(client, statement, &[&lookup.tenant.0, &value], deadline).await) })
    });
    let mut found: Vec<LookupRows> = lookups.iter().map(|_| Ok(Vec::new())).collect();
    let feeds = feeds(client, lookups, deadline);
    let (kinds, feeds, alone) = join3(join_all(kinds), feeds, join_all(alone)).await;
    for (indexes, rows) in kinds.into_iter().chain([feeds]) {
        match rows {
            Ok(rows) => distribute_rows(&mut found, &indexes, rows),
            Err(error) => fail(&mut found, indexes, error),
        }
    }
    for (index, rows) in alone {
        match rows {
            Ok(rows) => found[index] = Ok(rows),
            Err(error) => fail(&mut found, [index], error),
        }
    }
    found
}

/// Looks up the ids that `statement` serves. Returns their indexes in `lookups`, and the rows of all.
async fn by_ids(
    client: &Client, statement: Sql, lookups: &[&RecordLookup], deadline: Instant,
) -> (Vec<usize>, Result<Vec<Row>, TxError>) {
    let (mut indexes, mut tenants, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for (index, lookup) in lookups.iter().enumerate() {
        if let Some((serves, id)) = lookup.query.by_id()
            && serves == statement
        {
            indexes.push(index);
            tenants.push(lookup.tenant.0);
            ids.push(id);
        }
    }
    let rows = if ids.is_empty() { Ok(Vec::new()) } else { run(client, statement, &[&tenants, &ids], deadline).await };
    (indexes, rows)
}

/// Reads parts of feeds. Returns the indexes of their queries in `lookups`, and the rows of all.
async fn feeds(
    client: &Client, lookups: &[&RecordLookup], deadline: Instant,
) -> (Vec<usize>, Result<Vec<Row>, TxError>) {
    let mut queries = Vec::new();
    for (index, lookup) in lookups.iter().enumerate() {
        if let RecordQuery::Feed(query) = &lookup.query {
            queries.push((index, lookup.tenant.0, query));
        }
    }
    let indexes = column(&queries, |(index, ..)| *index);
    if queries.is_empty() {
        return (indexes, Ok(Vec::new()));
    }
    let parameters: [&(dyn ToSql + Sync); 5] = [
        &column(&queries, |(_, tenant, _)| *tenant),
        &column(&queries, |(.., query)| query.key.as_str()),
        &column(&queries, |(.., query)| query.subscription),
        &column(&queries, |(.., query)| query.after),
        &column(&queries, |(.., query)| query.limit),
    ];
    let rows = run(client, deliveries::FEED, &parameters, deadline).await;
    (indexes, rows)
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

/// Assigns rows to the requests whose ids they match. A row's column `place` counts the statement's ids from 1.
fn distribute_rows(found: &mut [LookupRows], indexes: &[usize], rows: Vec<Row>) {
    for row in rows {
        let index = request_of(indexes, row.try_get("place").unwrap_or(0));
        if let Some(Ok(rows)) = index.and_then(|index| found.get_mut(index)) {
            rows.push(row);
        }
    }
}

/// The index of the request whose id is at `ordinal`, from 1, among the statement's ids.
fn request_of(indexes: &[usize], ordinal: i64) -> Option<usize> {
    indexes.get(usize::try_from(ordinal).ok()?.checked_sub(1)?).copied()
}

fn fail(found: &mut [LookupRows], indexes: impl IntoIterator<Item = usize>, error: TxError) {
    let error = Arc::new(error);
    for index in indexes {
        found[index] = Err(Arc::clone(&error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_goes_only_to_the_request_with_its_id() {
        let of = |ordinal| request_of(&[4, 0, 7], ordinal);
        assert_eq!([1, 2, 3].map(of), [Some(4), Some(0), Some(7)]);
        assert_eq!([0, -1, 4, i64::MAX, i64::MIN].map(of), [None; 5]);
    }
}
