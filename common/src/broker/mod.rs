//! RabbitMQ. The only module that knows the AMQP library.
//!
//! One supervised connection for a program ([`Broker`]); on it, request/reply for ingest and `connectctl` ([`Rpc`])
//! and lanes of consumption for worker and dispatcher ([`run_lane`]). Each notices by itself when the connection is
//! gone and begins anew on the next one.

mod connection;
mod lane;
mod reply;
mod rpc;
mod topology;

pub use connection::{Broker, QueueDepth};
pub use lane::{Handler, LaneBounds, Message, Verdict, run_lane};
pub use rpc::{CallError, Rpc, RpcRequest};
pub use topology::{Queue, dead_queue_name, queue_name};
