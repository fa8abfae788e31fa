//! Arguments of `connectctl queue`.

use clap::{Args, Subcommand, ValueEnum};
use common::broker::Queue;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Declare the queues with the limits of CONNECT_QUEUE_MAX_LENGTH and CONNECT_QUEUE_MAX_BYTES; those that exist stay as they are
    #[command(after_help = DECLARE_HELP)]
    Declare,
    /// List the queues with their depth, consumers and dead letters
    #[command(after_help = "Example:\n  connectctl queue list")]
    List,
    /// Show why and when messages of a queue were dead-lettered, oldest first
    #[command(after_help = "Example:\n  connectctl queue show events --dead --limit 20")]
    Show(ShowArgs),
    /// Requeue dead letters once their cause has been fixed
    #[command(after_help = REQUEUE_HELP)]
    Requeue(Requeue),
    /// Drop dead letters permanently
    #[command(after_help = "Example:\n  connectctl queue drop events --dead --yes")]
    Drop(DropArgs),
}

const DECLARE_HELP: &str = "\
The programs that consume queues declare them as well. The command is for a user of connect-ingest that may not: then
connect-ingest can start before the first worker.

Example:
  connectctl queue declare";

const REQUEUE_HELP: &str = "\
Dead letters of events, records and crm return to the end of their queue. Their callers no longer wait for a reply;
a records write is not applied, because its deadline has passed and its caller has got a 503.
Dead letters of webhooks are replayed as deliveries, as `connectctl delivery replay --dead` does for one tenant. A
dead letter is kept if its delivery is not dead, and removed if it was delivered or dropped meanwhile.

Examples:
  connectctl queue requeue events --dead
  connectctl queue requeue webhooks --dead --limit 10";

#[derive(Debug, Args)]
pub(crate) struct DeadLetterQueueArgs {
    /// The queue's name, without the prefix
    pub(crate) name: QueueName,
    /// Select the queue's dead letters; required
    #[arg(long, required = true)]
    pub(crate) dead: bool,
}

/// The queues of the operator's contract.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum QueueName {
    Events,
    Records,
    Crm,
    Webhooks,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) named: DeadLetterQueueArgs,
    /// Show only the oldest N
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Requeue {
    #[command(flatten)]
    pub(crate) named: DeadLetterQueueArgs,
    /// Requeue only the oldest N [default: all that are in the queue now]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    #[command(flatten)]
    pub(crate) named: DeadLetterQueueArgs,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

impl DeadLetterQueueArgs {
    pub(crate) const fn queue(&self) -> Queue {
        match self.name {
            QueueName::Events => Queue::Events,
            QueueName::Records => Queue::Records,
            QueueName::Crm => Queue::Crm,
            QueueName::Webhooks => Queue::Webhooks,
        }
    }
}
