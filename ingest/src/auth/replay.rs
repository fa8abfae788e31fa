//! The replay store: a signature can be used once (specification: Authentication, 3; D2, D3).
//!
//! Group commit: requests queue, and one writer takes all that wait and remembers them with one statement, so that a
//! round trip and a commit are shared by all that arrived during the one before. Nothing waits for a timer: a lone
//! request is written at once. A second writer only made the groups smaller and the answers slower.

use super::replay_group::{Entry, Stored, firsts, judge, sort};
use crate::bound::Bound;
use crate::error::Refusal;
use crate::gather::gather;
use crate::maintenance::Partitions;
use crate::outage::Outage;
use crate::store::{self, replay_entries};
use common::db::{Database, TxError};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tracing::Span;

/// Requests that may wait for a writer. More than are ever under way, unless the settings say otherwise.
const QUEUE: usize = 4_096;
/// Most entries of one statement.
const GROUP: usize = 256;

/// What the store says of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is new, and now remembered.
    Fresh,
    /// It came before with the same `Idempotency-Key`.
    SameKeyAgain,
    /// It came before.
    Replayed,
}

/// A handle to the store.
#[derive(Clone, Debug)]
pub struct ReplayStore {
    queue: mpsc::Sender<Waiting>,
}

/// A request that waits. Its receiver is gone once it doesn't any more.
#[derive(Debug)]
struct Waiting {
    entry: Entry,
    /// What log lines about it name.
    span: Span,
    verdict: oneshot::Sender<Admission>,
}

/// Takes groups from the queue and writes them.
#[derive(Debug)]
struct Writer {
    db: Database,
    partitions: Partitions,
    within: Duration,
    outage: Outage,
}

impl ReplayStore {
    /// Starts the writer, which lives as long as a handle. `within` bounds the time that a statement takes.
    pub fn start(db: Database, partitions: Partitions, within: Duration) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let writer = Writer { db, partitions, within, outage: Outage::new("replay store") };
        tokio::spawn(writer.run(waiting));
        Self { queue }
    }

    /// Uses up a signature.
    ///
    /// 503 `overloaded` when too many wait; 503 `replay_store_unavailable` when there is no verdict until `deadline`.
    /// In the latter case the signature may have been remembered all the same.
    pub async fn admit(&self, entry: Entry, deadline: Instant) -> Result<Admission, Refusal> {
        let (verdict, told) = oneshot::channel();
        let waiting = Waiting { entry, span: Span::current(), verdict };
        self.queue.try_send(waiting).map_err(|error| match error {
            TrySendError::Full(_) => Bound::ReplayStore.refuse(),
            TrySendError::Closed(_) => Refusal::ReplayStoreUnavailable,
        })?;
        match timeout_at(deadline, told).await {
            Ok(Ok(verdict)) => Ok(verdict),
            // The writer failed and dropped the group, or is late.
            Ok(Err(_)) | Err(_) => Err(Refusal::ReplayStoreUnavailable),
        }
    }
}

impl Writer {
    async fn run(self, mut waiting: mpsc::Receiver<Waiting>) {
        let mut group = Vec::with_capacity(GROUP);
        while gather(&mut waiting, &mut group, GROUP).await {
            // Nobody is told of those, so they stay unused.
            group.retain(|waiting| !waiting.verdict.is_closed());
            if !group.is_empty() {
                self.write(&mut group).await;
            }
            group.clear();
        }
    }

    /// Remembers a group and tells its requests. On failure they are told by the end of their channels.
    async fn write(&self, group: &mut Vec<Waiting>) {
        sort(group, |waiting| &waiting.entry);
        let new = firsts(group.iter().map(|waiting| &waiting.entry));
        let stored = match self.remember(&new).await {
            Ok(stored) => stored,
            Err(error) => {
                return group.iter().for_each(|waiting| waiting.span.in_scope(|| self.outage.failed(&error)));
            }
        };
        self.outage.worked();
        let verdicts = judge(group.iter().map(|waiting| &waiting.entry), &stored);
        for (waiting, verdict) in group.drain(..).zip(verdicts) {
            // It may have given up meanwhile.
            let _ = waiting.verdict.send(verdict);
        }
    }

    /// Makes the partition that is missing and tries once more. Any other failure is final: the statement may have
    /// been committed, and a second try would take its own entries for replays.
    async fn remember(&self, new: &[&Entry]) -> Result<Vec<Stored>, TxError> {
        match self.try_remember(new).await {
            Err(TxError::Refused(error)) if replay_entries::is_partition_missing(&error) => {
                self.partitions.keep(common::clock::now()).await?;
                self.try_remember(new).await
            }
            done => done,
        }
    }

    async fn try_remember(&self, new: &[&Entry]) -> Result<Vec<Stored>, TxError> {
        let deadline = Instant::now() + self.within;
        store::ask(&self.db, deadline, async |client| replay_entries::remember(client, new).await).await
    }
}
