//! Look-ups of records by id: those of requests that arrive together are one statement.
//!
//! A round trip costs more than what is done at its end, so the time of Postgres and of this program goes into the
//! number of statements. While a group is under way the next one gathers, and is sent when that is over, or beside it
//! when that takes long: one that waits for a disk must not hold up all others. Nothing waits for a timer: a lone
//! look-up is sent at once.

use crate::bound::Bound;
use crate::error::Refusal;
use crate::gather::{gather, take_waiting};
use crate::outage::Outage;
use crate::store::{self, Unreadable};
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::model::TenantId;
use std::mem;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Row;
use tracing::Span;
use uuid::Uuid;

/// Which faults are logged.
static FAULTS: LogLimit<2> = LogLimit::new();

/// Requests that may wait to be sent. More than are ever under way, unless the settings say otherwise.
const QUEUE: usize = 4_096;
/// Most ids of one statement.
const GROUP: usize = 64;
/// How long the next group waits for the one under way. A statement takes some tenths of a millisecond.
const PATIENCE: Duration = Duration::from_millis(2);

/// A kind of record: how it is looked up and shown.
#[derive(Debug)]
pub struct Kind<V> {
    /// Takes agencies and ids as two arrays. Its rows have a column `place`: where in them, from 1, their id stands.
    pub statement: &'static str,
    /// Reads a row.
    pub view: fn(&Row) -> Result<V, Unreadable>,
}

/// Where groups are sent to.
#[derive(Clone, Debug)]
pub struct Source {
    /// The database.
    pub db: Database,
    /// Statements at once, of each kind.
    pub most: usize,
    /// How long one may take.
    pub within: Duration,
    /// Whether the database is away.
    pub outage: Arc<Outage>,
}

/// The look-ups of a kind.
#[derive(Debug)]
pub struct Lookups<V> {
    queue: mpsc::Sender<Waiting<V>>,
}

/// What one request is told.
type Found<V> = Result<Option<V>, Refusal>;

/// A request that waits. Its receiver is gone once it doesn't any more.
#[derive(Debug)]
struct Waiting<V> {
    tenant: TenantId,
    id: Uuid,
    /// What log lines about it name.
    span: Span,
    found: oneshot::Sender<Found<V>>,
}

impl<V: Send + 'static> Lookups<V> {
    /// Starts to send groups, for as long as the value lives.
    pub fn start(kind: Kind<V>, source: Source) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(send_groups(Arc::new(kind), source, waiting));
        Self { queue }
    }

    /// The agency's record with that id.
    ///
    /// 503 `overloaded` when too many wait; 503 `replay_store_unavailable` when the database doesn't answer until
    /// `deadline`.
    pub async fn find(&self, tenant: TenantId, id: Uuid, deadline: Instant) -> Found<V> {
        let (found, told) = oneshot::channel();
        let waiting = Waiting { tenant, id, span: Span::current(), found };
        self.queue.try_send(waiting).map_err(|error| match error {
            TrySendError::Full(_) => Bound::Reads.refuse(),
            TrySendError::Closed(_) => Refusal::Internal,
        })?;
        match timeout_at(deadline, told).await {
            Ok(Ok(found)) => found,
            // The group was dropped without a word, which only a panic does.
            Ok(Err(_)) => Err(Refusal::Internal),
            Err(_) => Err(Refusal::ReplayStoreUnavailable),
        }
    }
}

async fn send_groups<V: Send + 'static>(
    kind: Arc<Kind<V>>,
    source: Source,
    mut waiting: mpsc::Receiver<Waiting<V>>,
) {
    let mut under_way = JoinSet::new();
    let mut group = Vec::new();
    while gather(&mut waiting, &mut group, GROUP).await {
        // Either way it is the next one's turn.
        drop(timeout(PATIENCE, under_way.join_next()).await);
        while under_way.len() >= source.most {
            under_way.join_next().await;
        }
        take_waiting(&mut waiting, &mut group, GROUP);
        // Nobody is told of those.
        group.retain(|waiting| !waiting.found.is_closed());
        if !group.is_empty() {
            under_way.spawn(answer(Arc::clone(&kind), source.clone(), mem::take(&mut group)));
        }
    }
}

/// Looks a group up and tells its requests.
async fn answer<V>(kind: Arc<Kind<V>>, source: Source, group: Vec<Waiting<V>>) {
    let found = match ask(&kind, &source, &group).await {
        Ok(rows) => {
            source.outage.worked();
            let views = rows.iter().map(|row| {
                let place = row.try_get("place").unwrap_or(0);
                let span = index(place).and_then(|index| group.get(index)).map(|waiting| &waiting.span);
                (place, span.unwrap_or(&Span::none()).in_scope(|| view(&kind, row)))
            });
            by_place(group.len(), views)
        }
        // Each of them is refused, and each one's lines say so.
        Err(error) => group
            .iter()
            .map(|waiting| Err(waiting.span.in_scope(|| unanswered(&source.outage, &error))))
            .collect(),
    };
    for (waiting, found) in group.into_iter().zip(found) {
        // It may have given up meanwhile.
        let _ = waiting.found.send(found);
    }
}

async fn ask<V>(kind: &Kind<V>, source: &Source, group: &[Waiting<V>]) -> Result<Vec<Row>, TxError> {
    let tenants: Vec<Uuid> = group.iter().map(|waiting| waiting.tenant.0).collect();
    let ids: Vec<Uuid> = group.iter().map(|waiting| waiting.id).collect();
    store::ask(&source.db, Instant::now() + source.within, async |client| {
        let statement = client.prepare_cached(kind.statement).await?;
        client.query(&statement, &[&tenants, &ids]).await
    })
    .await
}

fn view<V>(kind: &Kind<V>, row: &Row) -> Result<V, Refusal> {
    (kind.view)(row).map_err(|error| {
        limited!(FAULTS[0], error, %error, "a record can't be read");
        Refusal::Internal
    })
}

/// What each of `count` requests is told, given what was found and the place, from 1, of the request that it is for.
fn by_place<V>(count: usize, views: impl Iterator<Item = (i64, Result<V, Refusal>)>) -> Vec<Found<V>> {
    let mut found: Vec<Found<V>> = (0..count).map(|_| Ok(None)).collect();
    for (place, view) in views {
        if let Some(found) = index(place).and_then(|index| found.get_mut(index)) {
            *found = view.map(Some);
        }
    }
    found
}

/// Where in its group the request of a `place` is, which counts from 1.
fn index(place: i64) -> Option<usize> {
    usize::try_from(place).ok()?.checked_sub(1)
}

/// What callers are told of a statement that failed: 503 when the database is away, 500 when it refused.
pub(crate) fn unanswered(outage: &Outage, error: &TxError) -> Refusal {
    match error {
        TxError::Unavailable(_) | TxError::Conflict(_) | TxError::Stale(_) => {
            outage.failed(error);
            Refusal::ReplayStoreUnavailable
        }
        TxError::Refused(_) | TxError::Abandoned(_) => {
            limited!(FAULTS[1], error, %error, "a read was refused");
            Refusal::Internal
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_told_of_its_own_record_in_whatever_order_they_are_found() {
        let found = [(3, Ok("c")), (1, Ok("a")), (4, Err(Refusal::Internal))];
        let told = by_place(5, found.into_iter());
        assert_eq!(told, [Ok(Some("a")), Ok(None), Ok(Some("c")), Err(Refusal::Internal), Ok(None)]);
    }

    #[test]
    fn a_place_that_nobody_has_is_told_nobody() {
        let found = [(0, Ok("a")), (-1, Ok("b")), (3, Ok("c")), (i64::MAX, Ok("d"))];
        assert_eq!(by_place(2, found.into_iter()), [Ok(None), Ok(None)]);
    }
}
