//! `connectctl delivery`: webhooks on their way to a subscription, with every attempt, and their replay (D26).

mod dead_letters;
mod replay;
mod shown;
mod summary;

pub(crate) use dead_letters::delivery as of_dead_letter;
pub(crate) use replay::{replay_dead_ones, wake_dispatcher};

use crate::arguments::{Limit, OfTenant};
use crate::context::Context;
use crate::{lookup, rows};
use anyhow::{anyhow, ensure};
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand, ValueEnum};
use common::model::TenantId;
use shown::Delivery;
use summary::{BACKLOGS, Backlog};
use uuid::Uuid;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the deliveries of an agency with their attempts, newest last
    #[command(after_help = "Example:\n  connectctl delivery list --tenant acme --state dead")]
    List(List),
    /// List the subscriptions of all agencies that deliveries wait for or were given up for, the worst first
    #[command(after_help = "Example:\n  connectctl delivery summary")]
    Summary,
    /// Show a delivery with its attempts and what the receiver answered
    #[command(after_help = "Example:\n  connectctl delivery show 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Show(Named),
    /// Deliver once more, with the same ids: a delivery, an agency's dead ones, or those of a time range
    #[command(after_help = REPLAY_HELP)]
    Replay(Replay),
}

const REPLAY_HELP: &str = "\
What is replayed begins its schedule of attempts anew. What is on its way is left alone, and so is what goes to
a subscription that was removed.

Examples:
  connectctl delivery replay 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e
  connectctl delivery replay --dead --tenant acme
  connectctl delivery replay --tenant acme --from 2026-05-01T10:00:00Z --to 2026-05-01T12:00:00Z";

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    tenant: OfTenant,
    /// Only those in this state
    #[arg(long)]
    state: Option<State>,
    /// Only those to this subscription
    #[arg(long, value_name = "ID")]
    subscription: Option<String>,
    /// Only the newest N
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// What has become of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    /// Attempts are to come.
    Pending,
    /// The receiver has it.
    Delivered,
    /// All attempts failed.
    Dead,
    /// Its subscription was removed.
    Dropped,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Dropped => "dropped",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The delivery, as X-Connect-Delivery names it
    id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The delivery, dead or delivered
    #[arg(conflicts_with_all = ["dead", "slug", "from", "to"], required_unless_present = "slug")]
    id: Option<String>,
    /// Only dead ones
    #[arg(long, requires = "slug")]
    dead: bool,
    /// The agency, by its slug
    #[arg(long = "tenant", value_name = "SLUG", id = "slug")]
    slug: Option<String>,
    #[command(flatten)]
    range: Range,
}

/// When they were made.
#[derive(Clone, Copy, Debug, Args)]
struct Range {
    /// Only those made at or after this time, such as 2026-05-01T10:00:00Z
    #[arg(long, value_name = "TIME", requires = "to", required_unless_present_any = ["dead", "id"])]
    from: Option<DateTime<Utc>>,
    /// Only those made before this time
    #[arg(long, value_name = "TIME", requires = "from")]
    to: Option<DateTime<Utc>>,
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    match command {
        Command::List(wanted) => list(&wanted, context).await,
        Command::Summary => {
            let backlogs: Vec<Backlog> = rows::all(context, BACKLOGS, &[]).await?;
            context.output.many(&backlogs)
        }
        Command::Show(named) => show(context, &named.id).await,
        Command::Replay(Replay { id: Some(named), .. }) => {
            replay::one(context, &named).await?;
            show(context, &named).await
        }
        Command::Replay(Replay { id: None, dead, slug, range }) => {
            let slug = slug.unwrap_or_default();
            if let (Some(from), Some(to)) = (range.from, range.to) {
                ensure!(from < to, "--from must be before --to");
            }
            let tenant = lookup::tenant(context, &OfTenant { slug }).await?;
            let replayed =
                replay::many(context, &replay::Wanted { tenant, dead, from: range.from, to: range.to })
                    .await?;
            context.output.one(&replayed)
        }
    }
}

async fn list(wanted: &List, context: &Context) -> anyhow::Result<()> {
    let tenant = lookup::tenant(context, &wanted.tenant).await?;
    let subscription = match &wanted.subscription {
        Some(id) => Some(subscription(context, tenant, id).await?),
        None => None,
    };
    let state = wanted.state.map(State::as_str);
    let limit = Limit { rows: Some(wanted.limit) };
    let mut deliveries: Vec<Delivery> =
        rows::newest(context, shown::NEWEST, &[&tenant.0, &state, &subscription], &limit).await?;
    shown::load_attempts(context, tenant, &mut deliveries, false).await?;
    context.output.many(&deliveries)
}

async fn show(context: &Context, named: &str) -> anyhow::Result<()> {
    let delivery = shown::find(context, id(named)?).await?.ok_or_else(|| unknown(named))?;
    context.output.one(&delivery)?;
    if context.output.is_json() { Ok(()) } else { context.output.many(&delivery.attempts) }
}

/// A subscription of the agency, one that was removed included.
async fn subscription(context: &Context, tenant: TenantId, named: &str) -> anyhow::Result<Uuid> {
    let unknown = || anyhow!("no subscription {named:?}");
    let id = Uuid::try_parse(named).map_err(|_| unknown())?;
    let found = context.database.query_opt(shown::SUBSCRIPTION, &[&tenant.0, &id]).await?;
    found.map(|_| id).ok_or_else(unknown)
}

fn id(named: &str) -> anyhow::Result<Uuid> {
    Uuid::try_parse(named).map_err(|_| unknown(named))
}

fn unknown(named: &str) -> anyhow::Error {
    anyhow!("no delivery {named:?}")
}
