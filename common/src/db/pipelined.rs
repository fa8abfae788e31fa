//! A transaction in two round trips: BEGIN is sent with the first statements, COMMIT with the last ones.
//!
//! Postgres executes the statements of a connection in order, each with its own snapshot (READ COMMITTED). A statement that
//! fails aborts the transaction, and the COMMIT after it rolls back; the caller gets the first error.

use super::error::TxError;
use super::pool::{Client, Database, RESPONSES_OF_TRANSACTION};
use super::statement::{Sql, column};
use crate::health;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

/// BEGIN, by which [`super::sync_folding`] recognizes it, and the longest wait for a lock: what a transaction of one tenant waits
/// for, those of others wait for as well.
pub(super) const BEGIN: &str = "-- BEGIN
    BEGIN; SET LOCAL lock_timeout = '200ms'";

type Parameter<'a> = Box<dyn ToSql + Sync + Send + 'a>;
type StatementRows<'a> = BoxFuture<'a, Result<Vec<Row>, TxError>>;

/// A statement with its parameters, ready to be sent. Prepared once for each connection.
#[derive(Debug)]
pub struct Query<'a> {
    sql: Sql,
    parameters: Vec<Parameter<'a>>,
}

impl<'a> Query<'a> {
    /// A statement without parameters yet.
    pub const fn new(sql: Sql) -> Self {
        Self { sql, parameters: Vec::new() }
    }

    /// Adds the next parameter, `$1` first.
    #[must_use]
    pub fn bind(mut self, parameter: impl ToSql + Sync + Send + 'a) -> Self {
        self.parameters.push(Box::new(parameter));
        self
    }

    /// Adds an array as the next parameter: one value of each row.
    #[must_use]
    pub fn bind_column<'r, R, V>(self, rows: &'r [R], value: impl FnMut(&'r R) -> V) -> Self
    where
        Vec<V>: ToSql + Sync + Send + 'a,
    {
        self.bind(column(rows, value))
    }

    async fn run(&self, client: &Client, statement: &Statement) -> Result<Vec<Row>, TxError> {
        let parameters: Vec<&(dyn ToSql + Sync)> =
            self.parameters.iter().map(|parameter| parameter.as_ref() as &(dyn ToSql + Sync)).collect();
        Ok(client.query(statement, &parameters).await?)
    }
}

/// A transaction whose statements are sent without waiting for each other. Dropped before
/// [`commit`](Self::commit), it is rolled back before its connection is used again.
#[derive(Debug)]
pub struct PipelinedTransaction {
    /// `None` once it did not respond in time.
    client: Option<Client>,
    response_within: Duration,
    is_open: bool,
}

impl Database {
    /// A connection for a transaction, which begins with [`PipelinedTransaction::begin`].
    pub async fn pipelined(&self) -> Result<PipelinedTransaction, TxError> {
        let client = Some(self.client().await?);
        Ok(PipelinedTransaction { client, response_within: self.response_within, is_open: false })
    }
}

impl PipelinedTransaction {
    /// When its connection was established, or slightly later. The server has not crashed since then, or the connection would
    /// be lost.
    pub fn connected_at(&self) -> Instant {
        self.client.as_ref().map_or_else(Instant::now, |client| Client::metrics(client).created)
    }

    /// Begins the transaction and runs `queries` in one round trip. Returns the rows of each. A lock that it
    /// does not get within 200 ms is [`TxError::Locked`].
    pub async fn begin(&mut self, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>, TxError> {
        self.is_open = true;
        let mut rows = self.round_trip(Some(BEGIN), queries, None).await?;
        rows.remove(0);
        Ok(rows)
    }

    /// Runs `queries` and commits in one round trip; a transaction that has not begun begins with it. On an error nothing
    /// is committed. After [`TxError::Unavailable`] it is unknown whether the commit happened. Once the statements are prepared
    /// everything is sent at once: dropping the future then cancels nothing.
    pub async fn commit(mut self, queries: &[Query<'_>]) -> Result<(), TxError> {
        let begin = (!std::mem::replace(&mut self.is_open, true)).then_some(BEGIN);
        self.round_trip(begin, queries, Some("COMMIT")).await?;
        self.is_open = false;
        Ok(())
    }

    /// Runs `queries` and rolls back in one round trip. They fail as they would before a commit.
    pub async fn roll_back(mut self, queries: &[Query<'_>]) -> Result<(), TxError> {
        self.round_trip(None, queries, Some("ROLLBACK")).await?;
        self.is_open = false;
        Ok(())
    }

    /// Sends everything at once and waits for the responses. If one does not arrive in time, the connection is closed.
    async fn round_trip(
        &mut self, first: Option<&'static str>, queries: &[Query<'_>], last: Option<&'static str>,
    ) -> Result<Vec<Vec<Row>>, TxError> {
        let (client, _work) = (self.client.as_ref().ok_or_else(TxError::no_response)?, health::begin_work());
        let replies = async {
            let prepared = timeout(self.response_within, prepare(client, queries)).await;
            let statements = prepared.map_err(|_| TxError::no_response())??;
            let mut round_trip: Vec<StatementRows<'_>> = Vec::with_capacity(queries.len() + 2);
            round_trip.extend(first.map(|sql| command(client, sql).boxed()));
            round_trip.extend(statement_futures(client, queries, &statements));
            round_trip.extend(last.map(|sql| command(client, sql).boxed()));
            pipeline(round_trip, RESPONSES_OF_TRANSACTION * self.response_within).await
        };
        let replies = replies.await;
        if matches!(replies, Err(TxError::Unavailable(_))) {
            drop(self.client.take().map(Client::take));
        }
        replies
    }
}

impl Drop for PipelinedTransaction {
    fn drop(&mut self) {
        if let Some(client) = self.client.take().filter(|_| self.is_open) {
            // The first poll sends the ROLLBACK; the reply is not awaited.
            drop(client.batch_execute("ROLLBACK").now_or_never());
        }
    }
}

fn statement_futures<'a>(
    client: &'a Client, queries: &'a [Query<'_>], statements: &'a [Statement],
) -> impl Iterator<Item = StatementRows<'a>> {
    queries.iter().zip(statements).map(|(query, statement)| query.run(client, statement).boxed())
}

async fn command(client: &Client, sql: &str) -> Result<Vec<Row>, TxError> {
    client.batch_execute(sql).await?;
    Ok(Vec::new())
}

/// Prepares all statements of a round trip before the first is sent, because later ones would overtake a statement that is
/// still being prepared. Costs a round trip for each statement that is new to the connection.
async fn prepare(client: &Client, queries: &[Query<'_>]) -> Result<Vec<Statement>, TxError> {
    let mut statements = Vec::with_capacity(queries.len());
    for query in queries {
        statements.push(client.prepare_cached(query.sql.as_str()).await?);
    }
    Ok(statements)
}

/// Sends all statements in order, then waits for the replies, which arrive in the same order and most of them together, each
/// `within` a time of the one before. Returns the first error.
async fn pipeline(round_trip: Vec<StatementRows<'_>>, within: Duration) -> Result<Vec<Vec<Row>>, TxError> {
    enum Step<'a> {
        Waiting(StatementRows<'a>),
        Done(Result<Vec<Row>, TxError>),
    }
    let mut replies = Vec::with_capacity(round_trip.len());
    let mut steps: VecDeque<Step<'_>> = round_trip.into_iter().map(Step::Waiting).collect();
    let mut is_sent = false;
    let mut late = pin!(sleep(within));
    poll_fn(|context| {
        if !is_sent {
            is_sent = true;
            for step in &mut steps {
                if let Step::Waiting(reply) = step
                    && let Poll::Ready(result) = reply.poll_unpin(context)
                {
                    let was_refused = result.is_err();
                    *step = Step::Done(result);
                    if was_refused {
                        // What comes after it is not sent either, above all no COMMIT.
                        break;
                    }
                }
            }
        }
        while let Some(first) = steps.front_mut() {
            let result = match first {
                Step::Waiting(reply) => match reply.poll_unpin(context) {
                    Poll::Ready(result) => result,
                    Poll::Pending => {
                        return late.as_mut().poll(context).map(|()| Err(TxError::no_response()));
                    }
                },
                Step::Done(result) => std::mem::replace(result, Ok(Vec::new())),
            };
            steps.pop_front();
            late.as_mut().reset(tokio::time::Instant::now() + within);
            match result {
                Ok(rows) => replies.push(rows),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(std::mem::take(&mut replies)))
    })
    .await
}
