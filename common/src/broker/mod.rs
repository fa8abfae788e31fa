//! RabbitMQ. The only module that uses the AMQP library, except for the parser of `AMQP_URL` in `settings`.
//!
//! One supervised connection for a program ([`Broker`]). On it: request/reply for ingest and `connectctl` ([`Rpc`]); the
//! worker's consumer of units of messages ([`run_unit_consumer`]); and confirmed publishing ([`Publisher`]) for the dispatcher. Each of them
//! detects a lost connection and continues on the next one. Published messages are signed and consumed ones verified with
//! [`MessageKeys`]. An operator's command opens a connection of its own ([`OperatorConnection`]) and scans dead letters on it
//! ([`DeadLetterScan`]).

mod acknowledge;
mod confirm_channel;
mod connection;
mod consumer;
mod consumer_log;
mod dead_letter_log;
mod dead_letter_scan;
mod dial;
mod gauges;
mod mac;
mod message;
mod operator_connection;
mod publisher;
mod reply;
mod reply_channel;
mod rpc;
mod settle;
mod time_limit;
mod tls_report;
mod topology;
mod transport;
mod unacknowledged;

pub use connection::{Broker, QueueDepth};
pub use consumer::{UnitBounds, UnitHandler, run_unit_consumer};
pub use dead_letter_log::log_dead_letter;
pub use dead_letter_scan::{DeadLetter, DeadLetterAction, DeadLetterCause, DeadLetterCounts, DeadLetterScan, Window};
pub use gauges::{observe_queues, set_stored_actions};
pub use mac::{MacError, MessageKeys};
pub use message::Message;
pub use operator_connection::{OperatorConnection, OperatorConnectionError, QueueArguments, QueueStatus};
pub use publisher::{OutgoingMessage, PublishError, Publisher};
pub use reply_channel::{Hold, Holds};
pub use rpc::{CallError, Rpc, RpcRequest};
pub use settle::{MessageOutcome, StoredMessages};
pub use tls_report::{tls_files, tls_reports};
pub use topology::{Queue, QueueUse, dead_queue_name, queue_name};
pub use unacknowledged::UnacknowledgedGuard;
