//! `connectctl queue`: the queues, and what was dead-lettered in them. Bodies are never shown: they may hold persons'
//! data.

mod letter;
mod webhooks;

use crate::output::{Output, Show};
use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use common::broker::{Fate, Queue, QueueSeen, Visit};
use common::settings::{BrokerSettings, Environment, Section as _};
use letter::Letter;
use serde::Serialize;
use std::io::{IsTerminal as _, stderr, stdin};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the queues: what waits, who consumes, what was dead-lettered
    #[command(after_help = "Example:\n  connectctl queue list")]
    List,
    /// Show why and when messages of a queue were dead-lettered, oldest first
    #[command(after_help = "Example:\n  connectctl queue show events --dead --limit 20")]
    Show(Shown),
    /// Put dead letters back, when what killed them is mended
    #[command(after_help = REQUEUE_HELP)]
    Requeue(Requeue),
    /// Remove dead letters for good
    #[command(after_help = "Example:\n  connectctl queue drop events --dead --yes")]
    Drop(Dropped),
}

const REQUEUE_HELP: &str = "\
Those of events, records and crm go back to the end of their queue, and nobody waits for an answer any more: a
records write, whose caller was told 503, isn't begun again.
Those of webhooks are replayed as deliveries, as `connectctl delivery replay --dead` does for one agency. What
isn't a dead delivery stays; what was delivered or dropped since is removed. This needs DATABASE_URL.

Examples:
  connectctl queue requeue events --dead
  connectctl queue requeue webhooks --dead --limit 10";

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The queue, without the prefix
    name: Name,
    /// Its dead letters
    #[arg(long, required = true)]
    dead: bool,
}

/// The queues of the operator's contract.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    Events,
    Records,
    Crm,
    Webhooks,
}

#[derive(Debug, Args)]
pub(crate) struct Shown {
    #[command(flatten)]
    named: Named,
    /// Only the oldest N
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Requeue {
    #[command(flatten)]
    named: Named,
    /// Only the oldest N [default: all that are there now]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Dropped {
    #[command(flatten)]
    named: Named,
    /// Don't ask
    #[arg(long)]
    yes: bool,
}

impl Named {
    const fn queue(&self) -> Queue {
        match self.name {
            Name::Events => Queue::Events,
            Name::Records => Queue::Records,
            Name::Crm => Queue::Crm,
            Name::Webhooks => Queue::Webhooks,
        }
    }
}

/// A queue in the list.
#[derive(Serialize)]
struct Listed {
    name: String,
    /// Messages waiting; null where the queue isn't declared.
    depth: Option<u32>,
    consumers: Option<u32>,
    /// Messages in its dead-letter queue; null where it has none.
    dead: Option<u32>,
}

impl From<QueueSeen> for Listed {
    fn from(seen: QueueSeen) -> Self {
        let QueueSeen { name, depth, dead } = seen;
        Self {
            name,
            depth: depth.map(|depth| depth.ready),
            consumers: depth.map(|depth| depth.consumers),
            dead,
        }
    }
}

impl Show for Listed {
    const COLUMNS: &'static [&'static str] = &["Queue", "Depth", "Consumers", "Dead"];

    fn cells(&self) -> Vec<Option<String>> {
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        vec![Some(self.name.clone()), number(self.depth), number(self.consumers), number(self.dead)]
    }
}

/// What became of dead letters that were to be put back.
#[derive(Default, Serialize)]
struct Requeued {
    /// They are in their queue again, or replayed.
    requeued: u32,
    /// They stay.
    kept: u32,
    /// They were of no use any more.
    removed: u32,
}

impl Show for Requeued {
    const COLUMNS: &'static [&'static str] = &["Requeued", "Kept", "Removed"];

    fn cells(&self) -> Vec<Option<String>> {
        [self.requeued, self.kept, self.removed].map(|number| Some(number.to_string())).to_vec()
    }
}

/// How many dead letters are gone.
#[derive(Serialize)]
struct Gone {
    dropped: u32,
}

impl Show for Gone {
    const COLUMNS: &'static [&'static str] = &["Dropped"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.dropped.to_string())]
    }
}

/// Runs a command, without a database where it needs none.
pub(crate) async fn run(command: Command, json: bool) -> anyhow::Result<()> {
    let output = Output::new(json);
    let visit = Visit::open(&BrokerSettings::read(&Environment::of_process())?, "connectctl").await?;
    match command {
        Command::List => {
            let listed: Vec<Listed> = visit.queues().await?.into_iter().map(Listed::from).collect();
            output.many(&listed)?;
        }
        Command::Show(Shown { named, limit }) => output.many(&show(&visit, named.queue(), limit).await?)?,
        Command::Requeue(Requeue { named, limit }) => {
            let requeued = match named.queue() {
                Queue::Webhooks => webhooks::replay(&visit, json, limit).await?,
                queue @ (Queue::Events | Queue::Records | Queue::Crm) => {
                    requeue(&visit, output, queue, limit).await?
                }
            };
            output.one(&requeued)?;
        }
        Command::Drop(dropped) => output.one(&discard(&visit, output, &dropped).await?)?,
    }
    Ok(visit.close().await?)
}

async fn show(visit: &Visit, queue: Queue, limit: u32) -> anyhow::Result<Vec<Letter>> {
    let mut walk = visit.walk(queue, Some(limit)).await?;
    let mut letters = Vec::new();
    while let Some(window) = walk.next_window().await? {
        letters.extend(
            window.letters().iter().map(|letter| Letter::of(letter, queue, &visit.queue_name(queue))),
        );
        window.settle(|_| Fate::Keep).await?;
    }
    walk.finish().await?;
    Ok(letters)
}

async fn requeue(
    visit: &Visit,
    output: Output,
    queue: Queue,
    limit: Option<u32>,
) -> anyhow::Result<Requeued> {
    let mut walk = visit.walk(queue, limit).await?;
    let mut progress = output.progress("requeued", walk.left().into());
    while let Some(window) = walk.next_window().await? {
        let settled = window.settle(|_| Fate::Requeue).await;
        let requeued = walk.walked().requeued;
        progress.reached(requeued.into());
        settled.with_context(|| format!("{requeued} requeued, the others stay"))?;
    }
    let done = walk.finish().await?;
    progress.end(done.requeued.into());
    Ok(Requeued { requeued: done.requeued, kept: done.kept, removed: done.removed })
}

async fn discard(visit: &Visit, output: Output, dropped: &Dropped) -> anyhow::Result<Gone> {
    let queue = dropped.named.queue();
    let mut walk = visit.walk(queue, None).await?;
    if walk.left() > 0 && !dropped.yes {
        confirm(walk.left(), &visit.queue_name(queue)).await?;
    }
    let mut progress = output.progress("dropped", walk.left().into());
    while let Some(window) = walk.next_window().await? {
        window.settle(|_| Fate::Remove).await?;
        progress.reached(walk.walked().removed.into());
    }
    let done = walk.finish().await?;
    progress.end(done.removed.into());
    Ok(Gone { dropped: done.removed })
}

/// Asks whoever sits at the terminal.
async fn confirm(count: u32, name: &str) -> anyhow::Result<()> {
    ensure!(stdin().is_terminal() && stderr().is_terminal(), "needs --yes where nobody can be asked");
    eprint!("Drop {count} dead letters of {name} for good? [y/N] ");
    // Beside the runtime, which keeps the connection alive meanwhile.
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        stdin().read_line(&mut line).map(|_| line)
    });
    match answer.await??.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("nothing is dropped"),
    }
}
