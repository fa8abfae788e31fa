//! What callers of a queue keep until their message is settled.

use std::fmt::Debug;
use std::time::Duration;

/// What is kept until a message is replied to, whether or not its caller still waits: a share of a bound. Dropped when the
/// broker has refused the message, after its reply, and when there was none for as long as it may still wait.
pub trait Hold: Debug + Send + Sync {
    /// The message has been replied to.
    fn replied(&self);
    /// How long the message may still wait for the worker, as far as is known now. Asked for when its caller has been
    /// answered without a reply.
    fn unreplied_hold(&self) -> Duration;
    /// There will be no reply, because the channel broke that it was to come on. The message may be in its queue all the
    /// same, and there is a connection again. Keeps itself for as long as that message may still wait.
    fn outlive(self: Box<Self>);
}

/// What is kept for a message.
pub type Holds = Vec<Box<dyn Hold>>;
