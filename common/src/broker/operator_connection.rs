//! A connection for one command of an operator.

use super::connection::QueueDepth;
use super::dial::{describe, dial, longest_connect};
use super::time_limit::in_time;
use super::topology::{self, Queue, QueueUse, dead_queue_name, queue_name};
use crate::settings::BrokerSettings;
use lapin::Connection;
use thiserror::Error;
use tokio::time::timeout;

/// A connection that is not reopened when it is lost, and on which nothing is declared: a command with a wrong prefix must
/// not leave queues behind.
pub struct OperatorConnection {
    pub(super) connection: Connection,
    prefix: String,
}

/// Why a command failed at the broker.
#[derive(Debug, Error)]
pub enum OperatorConnectionError {
    /// No broker accepted the connection; holds the last error.
    #[error("the broker cannot be reached: {0}")]
    Unreachable(String),
    /// The programs have not declared this queue under the prefix.
    #[error("the queue {0} does not exist; check CONNECT_QUEUE_PREFIX")]
    NoQueue(String),
    /// The broker refused a message that was to be requeued.
    #[error("the queue {0} refused a message: it is full or does not exist")]
    Refused(String),
    /// The broker neither delivered nor confirmed messages in time.
    #[error("the broker does not deliver or confirm messages in time: it may be short of memory or disk")]
    Stuck,
    /// The connection or its channel was closed.
    #[error("the broker closed the connection: {}", describe(.0))]
    Ended(#[from] lapin::Error),
}

/// A queue and its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Its name without prefix: `events`, `events.dead`.
    pub name: String,
    /// Its length; `None` when it does not exist.
    pub depth: Option<QueueDepth>,
    /// Messages in its dead-letter queue; `None` where it has none.
    pub dead: Option<u32>,
}

/// A queue, and whether it has the arguments that the programs declare it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueArguments {
    /// With the prefix of `CONNECT_QUEUE_PREFIX`.
    pub name: String,
    /// Its length; `None` when it does not exist.
    pub depth: Option<QueueDepth>,
    /// What the broker says about arguments that differ.
    pub difference: Option<String>,
}

impl std::fmt::Debug for OperatorConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OperatorConnection")
    }
}

impl OperatorConnection {
    /// Connects; `program` is the name the broker shows.
    pub async fn open(settings: &BrokerSettings, program: &str) -> Result<Self, OperatorConnectionError> {
        let dialled = timeout(longest_connect(settings), dial(settings, program)).await;
        let connection = match dialled {
            Ok(Ok((connection, _))) => connection,
            Ok(Err(error)) => return Err(OperatorConnectionError::Unreachable(error.to_string())),
            Err(_) => return Err(OperatorConnectionError::Unreachable("no response in time".to_owned())),
        };
        Ok(Self { connection, prefix: settings.prefix.clone() })
    }

    /// Declares the queues and their dead-letter queues, with the limits of these settings. A queue that exists stays as it is.
    pub async fn declare(&self, settings: &BrokerSettings) -> Result<(), OperatorConnectionError> {
        Ok(in_time(topology::declare(&self.connection, settings, QueueUse::ALL)).await?)
    }

    /// Compares the queues and their dead-letter queues with what the programs declare under these settings. Declares none.
    pub async fn compare(&self, settings: &BrokerSettings) -> Result<Vec<QueueArguments>, OperatorConnectionError> {
        let mut compared = Vec::new();
        for (name, arguments) in topology::declarations(settings) {
            let depth = self.depth(&name).await?;
            let difference = match depth {
                Some(_) => in_time(topology::difference(&self.connection, &name, arguments)).await?,
                None => None,
            };
            compared.push(QueueArguments { name, depth, difference });
        }
        Ok(compared)
    }

    /// What the names of all queues begin with, such as `connect`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// `<prefix>.<name>` of a queue.
    pub fn queue_name(&self, queue: Queue) -> String {
        queue_name(&self.prefix, queue)
    }

    /// `<prefix>.<name>.dead` of a queue.
    pub fn dead_queue_name(&self, queue: Queue) -> String {
        dead_queue_name(&self.prefix, queue)
    }

    /// The queues and their dead-letter queues.
    pub async fn queues(&self) -> Result<Vec<QueueStatus>, OperatorConnectionError> {
        let mut seen = Vec::new();
        for queue in Queue::ALL {
            let dead = self.depth(&self.dead_queue_name(queue)).await?;
            let (name, count) = (queue.as_str(), dead.map(|dead| dead.ready));
            if Queue::CONSUMED.contains(&queue) {
                let depth = self.depth(&self.queue_name(queue)).await?;
                seen.push(QueueStatus { name: name.to_owned(), depth, dead: count });
            }
            seen.push(QueueStatus { name: format!("{name}.dead"), depth: dead, dead: None });
        }
        Ok(seen)
    }

    /// The length of the queue of that full name; `None` when it does not exist.
    pub async fn depth(&self, name: &str) -> Result<Option<QueueDepth>, OperatorConnectionError> {
        Ok(in_time(topology::depth(&self.connection, name)).await?)
    }

    /// Closes the connection. Without it the broker logs that the client disconnected unexpectedly.
    pub async fn close(self) -> Result<(), OperatorConnectionError> {
        Ok(in_time(self.connection.close(200, "done".into())).await?)
    }
}
