//! The queues and their dead letters, for operators.

pub(crate) mod dead_letters;
pub(crate) mod drop_dead_letters;
pub(crate) mod list;
pub(crate) mod requeue;

use crate::context::Context;
use crate::failure::Failure;
use common::broker::Queue;

/// The queue in the path.
fn queue(context: &Context<'_>) -> Result<Queue, Failure> {
    let name = context.id()?;
    Queue::ALL.into_iter().find(|queue| queue.as_str() == name).ok_or(Failure::NotFound)
}
