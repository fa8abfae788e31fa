//! RabbitMQ. The only module that knows the AMQP library.
//!
//! One supervised connection for a program ([`Broker`]); on it, request/reply for ingest and `connectctl` ([`Rpc`]),
//! lanes of consumption for the worker ([`run_lane`]), messages handled side by side ([`run_intake`]) and confirmed
//! publishing ([`Publisher`]) for the dispatcher. Each notices by itself when the connection is gone and begins anew on
//! the next one. What is published is signed, and what is consumed is verified, with [`MessageKeys`]. An operator's command uses a connection for itself ([`Visit`]) and goes through dead letters with it
//! ([`Walk`]).

mod connection;
mod consumer_log;
mod dead;
mod dead_log;
mod dead_part;
mod gauges;
mod hold;
mod in_hand;
mod intake;
mod lane;
mod mac;
mod publisher;
mod reply;
mod rpc;
mod session;
mod settle;
mod topology;
mod visit;

pub use connection::{Broker, QueueDepth};
pub use dead::{DeadLetter, Death, Fate, Walk, Walked, Window};
pub use dead_log::log_dead_letter;
pub use dead_part::DeadPart;
pub use gauges::observe_queues;
pub use hold::{Hold, Holds};
pub use in_hand::Held;
pub use intake::{Intake, OpenIntake, Receipt, Received, run_intake};
pub use lane::{Handler, LaneBounds, Message, Verdict, run_lane};
pub use mac::{Forged, MessageKeys};
pub use publisher::{Outgoing, PublishError, Publisher};
pub use rpc::{CallError, Rpc, RpcRequest};
pub use topology::{Queue, dead_queue_name, queue_name, retry_queue_name};
pub use visit::{QueueSeen, Visit, VisitError};
