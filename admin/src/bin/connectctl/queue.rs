//! `connectctl queue`: the queues and their dead letters. Bodies are never shown: they may contain personal data.

use crate::arguments::one_of;
use crate::context::{Context, confirm, connect_database, open_broker};
use crate::output::{Output, show};
use admin::queues::{self, DeadLetterDrop, DeadLetterView, DropReport, MacStatus, QueueView, RequeueReport};
use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};
use common::broker::{OperatorConnection, Queue};
use common::sealed::MasterKeys;
use common::settings::{BrokerSettings, DatabaseSettings, Environment, SealingSettings, Section as _};
use std::time::Duration;
use tokio::time::timeout;

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
    Show {
        #[command(flatten)]
        named: DeadLetterQueueArgs,
        /// Show only the oldest N
        #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Requeue dead letters once their cause has been fixed
    #[command(after_help = REQUEUE_HELP)]
    Requeue {
        #[command(flatten)]
        named: DeadLetterQueueArgs,
        /// Requeue only the oldest N [default: all that are in the queue now]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
    },
    /// Drop dead letters permanently
    #[command(after_help = "Example:\n  connectctl queue drop events --dead --yes")]
    Drop {
        #[command(flatten)]
        named: DeadLetterQueueArgs,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

const DECLARE_HELP: &str = "\
The programs that consume queues declare them as well. The command is for a user of connect-ingest that may not: then \
connect-ingest can start before the first worker.

Example:
  connectctl queue declare";

const REQUEUE_HELP: &str = "\
Dead letters of events, records and crm return to the end of their queue. Their callers no longer wait for a reply; \
a records write is not applied, because its deadline has passed and its caller has got a 503.
Dead letters of webhooks are notices: the deliveries that they name are replayed, as `connectctl delivery replay --dead` \
does for one tenant, and the notices removed. A notice is kept if it cannot be read.

Examples:
  connectctl queue requeue events --dead
  connectctl queue requeue webhooks --dead --limit 10";

#[derive(Debug, Args)]
pub(crate) struct DeadLetterQueueArgs {
    /// The queue's name, without the prefix
    #[arg(value_name = "NAME", value_parser = queues())]
    pub(crate) queue: Queue,
    /// Select the queue's dead letters; required
    #[arg(long, required = true)]
    pub(crate) dead: bool,
}

fn queues() -> impl TypedValueParser<Value = Queue> {
    let parse = |name: &str| Queue::ALL.into_iter().find(|queue| queue.as_str() == name);
    one_of(Queue::ALL.map(|queue| (queue.as_str(), "")), parse)
}

/// Longest time for the ages of queues, which are in the database: the list is needed most while that does not respond.
const AGES_WITHIN: Duration = Duration::from_secs(3);

/// Runs a command. Connects to the database for `requeue` and `drop`, which add an audit record, and, if it can, for `list`,
/// which shows ages.
pub(crate) async fn run(command: Command, json: bool) -> anyhow::Result<()> {
    let output = Output::new(json);
    let environment = Environment::from_process();
    let broker = open_broker(&environment).await?;
    match command {
        Command::Declare => {
            broker.declare(&BrokerSettings::from_env(&environment)?).await?;
            output.print_list(&queues::list(&broker).await?)?;
        }
        Command::List => output.print_list(&list(&broker, &environment, output).await?)?,
        Command::Show { named, limit } => {
            let masters = master_keys(&environment, output);
            let letters = queues::dead_letters(&broker, named.queue, limit, masters.as_ref()).await?;
            output.print_list(&letters)?;
        }
        Command::Requeue { named, limit } => {
            output.print_one(&requeue(&broker, json, named.queue, limit).await?)?;
        }
        Command::Drop { named, yes } => output.print_one(&discard(&broker, json, named.queue, yes).await?)?,
    }
    Ok(broker.close().await?)
}

/// The master keys, which dead letters are verified with. Without them, they are shown all the same.
fn master_keys(environment: &Environment, output: Output) -> Option<MasterKeys> {
    match SealingSettings::from_env(environment) {
        Ok(settings) => Some(settings.master_keys),
        Err(error) => {
            output.note(&format!("Forged messages are not recognized: {error}"));
            None
        }
    }
}

/// The queues. Their ages are in the database, without which the rest is listed all the same.
async fn list(
    broker: &OperatorConnection, environment: &Environment, output: Output,
) -> anyhow::Result<Vec<QueueView>> {
    let mut listed = queues::list(broker).await?;
    let Ok(settings) = DatabaseSettings::from_env(environment) else { return Ok(listed) };
    let aged = async {
        let database = connect_database(&settings).await?;
        queues::add_ages(&database, &mut listed).await.map_err(anyhow::Error::from)
    };
    let late = || anyhow::anyhow!("the database does not respond within {} s", AGES_WITHIN.as_secs());
    if let Err(error) = timeout(AGES_WITHIN, aged).await.unwrap_or_else(|_| Err(late())) {
        output.note(&format!("For how long messages have waited is unknown: {error:#}"));
    }
    Ok(listed)
}

async fn requeue(
    broker: &OperatorConnection, json: bool, queue: Queue, limit: Option<u32>,
) -> anyhow::Result<RequeueReport> {
    let Context { mut database, output, actor, .. } = Context::open(json).await?;
    let mut observer = output.observer();
    if queue == Queue::Webhooks {
        output.note("Dead letters of webhooks are replayed as deliveries.");
    }
    Ok(queues::requeue(&mut database, &actor, broker, queue, limit, &mut observer).await?)
}

async fn discard(
    broker: &OperatorConnection, json: bool, queue: Queue, is_confirmed: bool,
) -> anyhow::Result<DropReport> {
    let Context { mut database, output, actor, .. } = Context::open(json).await?;
    let drop = DeadLetterDrop::prepare(broker, queue).await?;
    if drop.count() > 0 && !is_confirmed {
        let (count, name) = (drop.count(), broker.queue_name(queue));
        let question = format!("Dead letters of {name} to drop: {count}. Their content is lost for good. Drop them?");
        confirm(&question, "nothing is dropped").await?;
    }
    Ok(drop.run(&mut database, &actor, &mut output.observer()).await?)
}

show!(QueueView, queue: "Queue" queue.name, "Depth" queue.depth, "Oldest" queue.oldest, "Consumers" queue.consumers,
    "Dead" queue.dead);

show!(DeadLetterView, letter: "Dead since" letter.at, "Why" letter.why, "MAC" letter.mac.map(MacStatus::as_str),
    "Type" letter.metadata.kind, "Request or delivery" letter.metadata.delivery_id.or(letter.metadata.request_id),
    "Bytes" letter.bytes);

show!(RequeueReport, report: "Requeued" report.requeued, "Kept" report.kept, "Removed" report.removed);

show!(DropReport, report: "Dropped" report.dropped);
