//! Resources that a caller reserves until its message is replied to.

use std::fmt::Debug;
use std::time::Duration;

/// A reservation that lasts until a message is replied to, whether or not its caller still waits, such as a share of the
/// backlog. It is dropped when the broker refuses the message, after the reply, and when no reply came within the time for
/// which the message may still wait.
pub trait Hold: Debug + Send + Sync {
    /// The broker has confirmed the message. Not called if the reply arrives first, or after the hold time. May be called under the
    /// lock of the pending messages, like [`abandoned`](Self::abandoned).
    fn confirmed(&self) {}
    /// The caller gets its response, and no reply has arrived yet, or none can arrive because the channel was lost. The
    /// reservation may stay for long, so it should not refer to memory of the request any more.
    fn abandoned(&self) {}
    /// The message has been replied to.
    fn replied(&self);
    /// How long the message may still wait for the worker, by the current estimate. Called when its caller gets a response
    /// before a reply has arrived.
    fn unreplied_hold_time(&self) -> Duration;
    /// Called after a reconnect, when no reply can arrive any more, because the reply channel was lost. Releases the reservation once
    /// the message cannot be waiting in its queue any more.
    fn release_after_longest_wait(self: Box<Self>);
}

/// The reservations for one message.
pub type Holds = Vec<Box<dyn Hold>>;
