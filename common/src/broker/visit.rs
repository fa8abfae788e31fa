//! A connection for one command of an operator.

use super::connection::{QueueDepth, dial, longest_connect};
use super::topology::{self, Queue, dead_queue_name, queue_name};
use crate::settings::BrokerSettings;
use lapin::Connection;
use thiserror::Error;
use tokio::time::timeout;

/// Most queues of waits that are looked for; there are as many as the retry schedule has different waits.
const RETRY_QUEUES_MAX: u32 = 64;

/// A connection that isn't made again when it breaks, and on which nothing is declared: a command that was given the
/// wrong prefix must not leave queues behind.
pub struct Visit {
    pub(super) connection: Connection,
    prefix: String,
}

/// Why a command can't go on.
#[derive(Debug, Error)]
pub enum VisitError {
    /// No connection.
    #[error("can't reach the broker: {0}")]
    Unreachable(String),
    /// The programs have declared no such queue under this prefix.
    #[error("there is no queue {0}")]
    NoQueue(String),
    /// A message that was to be put back was not taken.
    #[error("queue {0} takes no more messages: it is full, or gone")]
    Refused(String),
    /// Nothing moves for a while.
    #[error("the broker holds messages back: it may be short of memory or disk")]
    Stuck,
    /// The connection or its channel ended.
    #[error("the broker ended the connection: {0}")]
    Ended(#[from] lapin::Error),
}

/// A queue as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSeen {
    /// Its name without prefix: `events`, `events.dead`, `webhooks.retry.1`.
    pub name: String,
    /// What is in it; `None` where it isn't declared.
    pub depth: Option<QueueDepth>,
    /// Messages in its dead-letter queue; `None` where it has none.
    pub dead: Option<u32>,
}

impl std::fmt::Debug for Visit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Visit")
    }
}

impl Visit {
    /// Connects; `program` is the name the broker shows.
    pub async fn open(settings: &BrokerSettings, program: &str) -> Result<Self, VisitError> {
        let dialled = timeout(longest_connect(settings), dial(settings, program)).await;
        let connection = match dialled {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(VisitError::Unreachable(error.to_string())),
            Err(_) => return Err(VisitError::Unreachable("no answer in time".to_owned())),
        };
        Ok(Self { connection, prefix: settings.prefix.clone() })
    }

    /// `<prefix>.<name>` of a queue.
    pub fn queue_name(&self, queue: Queue) -> String {
        queue_name(&self.prefix, queue)
    }

    /// `<prefix>.<name>.dead` of a queue.
    pub fn dead_queue_name(&self, queue: Queue) -> String {
        dead_queue_name(&self.prefix, queue)
    }

    /// All queues: the four, their dead-letter queues, and the waits between webhook attempts that there are.
    pub async fn queues(&self) -> Result<Vec<QueueSeen>, VisitError> {
        let mut seen = Vec::new();
        for queue in Queue::ALL {
            let depth = self.depth(&self.queue_name(queue)).await?;
            let dead = self.depth(&self.dead_queue_name(queue)).await?;
            let (name, count) = (queue.as_str(), dead.map(|dead| dead.ready));
            seen.push(QueueSeen { name: name.to_owned(), depth, dead: count });
            seen.push(QueueSeen { name: format!("{name}.dead"), depth: dead, dead: None });
        }
        // Numbered from 1, without a gap.
        for level in 1..=RETRY_QUEUES_MAX {
            let name = format!("{}.retry.{level}", Queue::Webhooks.as_str());
            let depth = self.depth(&format!("{}.{name}", self.prefix)).await?;
            if depth.is_none() {
                break;
            }
            seen.push(QueueSeen { name, depth, dead: None });
        }
        Ok(seen)
    }

    /// What is in the queue of that full name; `None` where it isn't declared.
    pub async fn depth(&self, name: &str) -> Result<Option<QueueDepth>, VisitError> {
        Ok(topology::depth(&self.connection, name).await?)
    }

    /// Says good-bye. Without it the broker logs that the client vanished.
    pub async fn close(self) -> Result<(), VisitError> {
        Ok(self.connection.close(200, "done".into()).await?)
    }
}
