//! Resources that a caller reserves until its message is replied to.

use std::fmt::Debug;
use std::time::Duration;

/// A reservation that lasts until a message is replied to, whether or not its caller still waits, such as a share of the
/// backlog. It is dropped when the broker refuses the message, after the reply, and when no reply came within the time for
/// which the message may still wait.
pub trait Hold: Debug + Send + Sync {
    /// The message has been replied to.
    fn replied(&self);
    /// How long the message may still wait for the worker, by the current estimate. Called when its caller gets a response
    /// before a reply has arrived.
    fn unreplied_hold(&self) -> Duration;
    /// Called after a reconnect: no reply can arrive, because the reply channel was lost, but the message may still be in
    /// its queue. The reservation keeps itself for as long as that message may still wait.
    fn keep_without_reply(self: Box<Self>);
}

/// The reservations for one message.
pub type Holds = Vec<Box<dyn Hold>>;
