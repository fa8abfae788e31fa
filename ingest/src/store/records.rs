//! Records as the API shows them: the look-ups of many requests in one round trip.

use super::{clients, leads, trips};
use crate::reads::ClientKey;
use common::db::{Client, TxError};
use common::model::{ClientId, LeadId, TenantId};
use futures_util::future::{join, join_all};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// What a read asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordQuery {
    /// A client by its id.
    Client(ClientId),
    /// An enquiry by its id.
    Lead(LeadId),
    /// The trip of an enquiry.
    Trip(LeadId),
    /// The client with that identity.
    ClientBy(ClientKey),
    /// The enquiries with that id of the caller's.
    LeadsBy(String),
}

/// The query of one request. A record of another agency is not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The agency that asks.
    pub tenant: TenantId,
    /// What it asks for.
    pub query: RecordQuery,
}

/// The rows of one query, in their order. A failed statement fails all queries that it served.
pub type Rows = Result<Vec<Row>, Arc<TxError>>;

impl RecordQuery {
    /// The statement that looks up the ids of many requests, and the id; `None` for a query that has a statement of its own.
    const fn by_id(&self) -> Option<(&'static str, Uuid)> {
        match self {
            Self::Client(id) => Some((clients::BY_IDS, id.0)),
            Self::Lead(id) => Some((leads::BY_IDS, id.0)),
            Self::Trip(id) => Some((trips::OF_LEADS, id.0)),
            Self::ClientBy(_) | Self::LeadsBy(_) => None,
        }
    }

    /// Whether it shares its statement with other requests.
    pub const fn is_by_id(&self) -> bool {
        self.by_id().is_some()
    }

    /// The statement of its own, and what it compares.
    fn alone(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::ClientBy(ClientKey::Email(email)) => Some((clients::BY_EMAIL, email)),
            Self::ClientBy(ClientKey::ExternalId(id)) => Some((clients::BY_EXTERNAL_ID, id)),
            Self::ClientBy(ClientKey::Phone(digits)) => Some((clients::BY_PHONE, digits)),
            Self::LeadsBy(external_id) => Some((leads::BY_EXTERNAL_ID, external_id)),
            Self::Client(_) | Self::Lead(_) | Self::Trip(_) => None,
        }
    }
}

/// Looks up what requests want: a statement for each kind of record, all sent at once. Gives the rows of each request. What
/// has not come by `deadline` is unavailable; the connection must not be used again then.
pub async fn find(client: &Client, wanted: &[&Wanted], deadline: Instant) -> Vec<Rows> {
    let kinds = [clients::BY_IDS, leads::BY_IDS, trips::OF_LEADS]
        .map(|statement| by_ids(client, statement, wanted, deadline));
    let alone = wanted.iter().enumerate().filter_map(|(place, wanted)| {
        let (statement, value) = wanted.query.alone()?;
        Some(async move { (place, run(client, statement, &[&wanted.tenant.0, &value], deadline).await) })
    });
    let mut found: Vec<Rows> = wanted.iter().map(|_| Ok(Vec::new())).collect();
    let (kinds, alone) = join(join_all(kinds), join_all(alone)).await;
    for (places, rows) in kinds {
        match rows {
            Ok(rows) => hand_out(&mut found, &places, rows),
            Err(error) => fail(&mut found, places, error),
        }
    }
    for (place, rows) in alone {
        match rows {
            Ok(rows) => found[place] = Ok(rows),
            Err(error) => fail(&mut found, [place], error),
        }
    }
    found
}

/// Looks up the ids that `statement` serves. Gives their places in `wanted`, and the rows of all.
async fn by_ids(
    client: &Client,
    statement: &'static str,
    wanted: &[&Wanted],
    deadline: Instant,
) -> (Vec<usize>, Result<Vec<Row>, TxError>) {
    let (mut places, mut tenants, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for (place, wanted) in wanted.iter().enumerate() {
        if let Some((serves, id)) = wanted.query.by_id()
            && serves == statement
        {
            places.push(place);
            tenants.push(wanted.tenant.0);
            ids.push(id);
        }
    }
    let rows = if ids.is_empty() {
        Ok(Vec::new())
    } else {
        run(client, statement, &[&tenants, &ids], deadline).await
    };
    (places, rows)
}

async fn run(
    client: &Client,
    statement: &'static str,
    parameters: &[&(dyn ToSql + Sync)],
    deadline: Instant,
) -> Result<Vec<Row>, TxError> {
    let ask = async {
        let statement = client.prepare_cached(statement).await?;
        client.query(&statement, parameters).await
    };
    timeout_at(deadline, ask).await.map_or_else(|_| Err(super::late()), |rows| rows.map_err(TxError::from))
}

/// Hands rows to the requests whose ids they were found by. A row's `place` counts the statement's ids from 1.
fn hand_out(found: &mut [Rows], places: &[usize], rows: Vec<Row>) {
    for row in rows {
        let place = request_of(places, row.try_get("place").unwrap_or(0));
        if let Some(Ok(rows)) = place.and_then(|place| found.get_mut(place)) {
            rows.push(row);
        }
    }
}

/// The request whose id has that place, from 1, among the statement's.
fn request_of(places: &[usize], place: i64) -> Option<usize> {
    places.get(usize::try_from(place).ok()?.checked_sub(1)?).copied()
}

fn fail(found: &mut [Rows], places: impl IntoIterator<Item = usize>, error: TxError) {
    let error = Arc::new(error);
    for place in places {
        found[place] = Err(Arc::clone(&error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_goes_to_the_request_whose_id_it_was_found_by_and_to_nobody_else() {
        let of = |place| request_of(&[4, 0, 7], place);
        assert_eq!([1, 2, 3].map(of), [Some(4), Some(0), Some(7)]);
        assert_eq!([0, -1, 4, i64::MAX, i64::MIN].map(of), [None; 5]);
    }

    #[test]
    fn each_query_has_exactly_one_statement() {
        let id = Uuid::nil();
        for query in [
            RecordQuery::Client(ClientId(id)),
            RecordQuery::Lead(LeadId(id)),
            RecordQuery::Trip(LeadId(id)),
            RecordQuery::ClientBy(ClientKey::Email("a@b.c".to_owned())),
            RecordQuery::LeadsBy("1".to_owned()),
        ] {
            assert_ne!(query.by_id().is_some(), query.alone().is_some(), "{query:?}");
        }
    }
}
