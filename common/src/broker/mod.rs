//! RabbitMQ. The only module that knows the AMQP library.
//!
//! One supervised connection for a program ([`Broker`]); on it, request/reply for ingest ([`Rpc`]) and lanes of
//! consumption for worker and dispatcher ([`run_lane`]). Each notices by itself when the connection is gone and
//! begins anew on the next one. An operator's command uses a connection for itself ([`Visit`]) and goes through dead
//! letters with it ([`Walk`]).

mod connection;
mod dead;
mod lane;
mod reply;
mod rpc;
mod topology;
mod visit;

pub use connection::{Broker, QueueDepth};
pub use dead::{DeadLetter, Death, Fate, Walk, Walked, Window};
pub use lane::{Handler, LaneBounds, Message, Verdict, run_lane};
pub use rpc::{CallError, Rpc, RpcRequest};
pub use topology::{Queue, dead_queue_name, queue_name};
pub use visit::{QueueSeen, Visit, VisitError};
