//! `connectctl delivery`: webhook deliveries with their attempts, and their replay (D26).

use crate::arguments::{TenantArgs, instant, one_of};
use crate::context::Context;
use crate::output::show;
use admin::deliveries::{self, Attempt, Delivery, DeliveryQuery, REPLAY_RATE, REPLAY_RATES, SubscriptionBacklog};
use admin::{subscriptions, tenants};
use anyhow::ensure;
use chrono::{DateTime, Utc};
use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};
use common::event::OutboundType;
use common::model::DeliveryState;
use serde::Serialize;
use uuid::Uuid;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the deliveries of a tenant with their attempts, those of the newest events last
    #[command(after_help = "Example:\n  connectctl delivery list --tenant acme --state dead")]
    List(List),
    /// List the subscriptions of all tenants that have pending or dead deliveries, most failures first
    #[command(after_help = "Example:\n  connectctl delivery summary")]
    Summary,
    /// Show a delivery with its attempts and the receiver's responses
    #[command(after_help = SHOW_HELP)]
    Show(DeliveryArgs),
    /// Replay deliveries with the same ids: one, the dead ones of a tenant, those of a time range, or all that match
    #[command(after_help = REPLAY_HELP)]
    Replay(Replay),
}

const SHOW_HELP: &str = "\
An attempt has the time of the machine that made it. Where the clocks of two machines differ, an attempt that the one \
made can appear before the delivery that the other one had put off.

Example:
  connectctl delivery show 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";

const REPLAY_HELP: &str = "\
A replayed delivery starts its schedule of attempts again. Pending deliveries, and those of removed subscriptions, \
are not replayed.

All but a single delivery are counted, and a job of the dispatcher replays them: at the rate, and also after this command \
was interrupted. See connectctl replay. --from and --to are times of the events. Dead and delivered deliveries are \
replayed unless --state or --dead is given.

Examples:
  connectctl delivery replay 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e
  connectctl delivery replay --dead --tenant acme --rate 20
  connectctl delivery replay --tenant acme --from 2026-05-01T10:00:00Z \\
      --to 2026-05-01T12:00:00Z
  connectctl delivery replay --tenant acme --event-type lead.assigned --dry-run";

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Only deliveries in this state
    #[arg(long, value_parser = states())]
    pub(crate) state: Option<DeliveryState>,
    /// Only deliveries to this subscription
    #[arg(long, value_name = "ID")]
    pub(crate) subscription: Option<String>,
    /// Show only the newest N
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct DeliveryArgs {
    /// Id of the delivery, as in the header X-Connect-Delivery
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Id of a delivery that is dead or delivered
    #[arg(value_name = "DELIVERY", conflicts_with_all = ["dead", "slug", "from", "to"], required_unless_present = "slug")]
    pub(crate) id: Option<String>,
    /// Replay only dead deliveries
    #[arg(long, requires = "slug")]
    pub(crate) dead: bool,
    /// Slug of the tenant
    #[arg(long = "tenant", value_name = "SLUG", id = "slug")]
    pub(crate) slug: Option<String>,
    /// Only from this time on, such as 2026-05-01T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = instant, required_unless_present_any = ["dead", "id", "to", "state", "event_type", "subscription", "dry_run"])]
    pub(crate) from: Option<DateTime<Utc>>,
    /// Only before this time
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub(crate) to: Option<DateTime<Utc>>,
    /// Replay only deliveries in this state
    #[arg(long, requires = "slug", conflicts_with_all = ["id", "dead"], value_parser = ended_states())]
    pub(crate) state: Option<DeliveryState>,
    /// Replay only deliveries of events of this type
    #[arg(long, value_name = "TYPE", requires = "slug", conflicts_with = "id", value_parser = event_types())]
    pub(crate) event_type: Option<OutboundType>,
    /// Replay only deliveries to this subscription
    #[arg(long, value_name = "SUBSCRIPTION", requires = "slug", conflicts_with = "id")]
    pub(crate) subscription: Option<String>,
    /// Maximum number of deliveries that are replayed in a second [default: 100]
    #[arg(long, value_name = "N", requires = "slug", conflicts_with = "id", value_parser = rates())]
    pub(crate) rate: Option<i32>,
    /// Only count what would be replayed
    #[arg(long, requires = "slug", conflicts_with_all = ["id", "rate", "no_wait"])]
    pub(crate) dry_run: bool,
    /// Print the job instead of waiting until it has ended
    #[arg(long, requires = "slug", conflicts_with = "id")]
    pub(crate) no_wait: bool,
}

fn states() -> impl TypedValueParser<Value = DeliveryState> {
    one_of(DeliveryState::ALL.map(|state| (state.as_str(), meaning(state))), DeliveryState::parse)
}

fn ended_states() -> impl TypedValueParser<Value = DeliveryState> {
    let ended = [DeliveryState::DeadLettered, DeliveryState::Delivered];
    one_of(ended.map(|state| (state.as_str(), meaning(state))), DeliveryState::parse)
}

fn event_types() -> impl TypedValueParser<Value = OutboundType> {
    one_of(OutboundType::ALL.iter().map(|known| (known.as_str(), "")), OutboundType::parse)
}

fn rates() -> impl TypedValueParser<Value = i32> {
    let rates = i64::from(*REPLAY_RATES.start())..=i64::from(*REPLAY_RATES.end());
    clap::value_parser!(i32).range(rates)
}

const fn meaning(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Pending => "Further attempts will be made",
        DeliveryState::Delivered => "The receiver has accepted it",
        DeliveryState::DeadLettered => "All its attempts have failed",
        DeliveryState::Dropped => "Its subscription was removed, or it was a test event that failed",
    }
}

/// The result of a replay.
#[derive(Debug, Serialize)]
struct ReplayReport {
    /// Number of deliveries that were selected.
    matched: u64,
    /// Number of replayed deliveries.
    replayed: u64,
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    match command {
        Command::List(args) => list(args, context).await,
        Command::Summary => context.output.print_list(&deliveries::backlogs(&context.database).await?),
        Command::Show(named) => show(context, &named.id).await,
        Command::Replay(Replay { id: Some(id), .. }) => {
            let Context { database, actor, .. } = &mut *context;
            deliveries::replay_one(database, actor, &id).await?;
            show(context, &id).await
        }
        Command::Replay(replay) => replay_by_job(replay, context).await,
    }
}

async fn list(args: List, context: &Context) -> anyhow::Result<()> {
    let List { tenant, state, subscription, limit } = args;
    let filter = (state, subscription.as_deref());
    let listed = deliveries::list(&context.database, &tenant.slug, filter, limit).await?;
    context.output.print_newest(&listed, limit)
}

async fn show(context: &Context, id: &str) -> anyhow::Result<()> {
    let delivery = deliveries::find(&context.database, id, true).await?;
    print(context, &delivery)
}

/// Prints a delivery; for people, its attempts in a table of their own.
pub(crate) fn print(context: &Context, delivery: &Delivery) -> anyhow::Result<()> {
    context.output.print_one(delivery)?;
    let has_more = !context.output.is_json() && !delivery.attempts.is_empty();
    if has_more { context.output.print_list(&delivery.attempts) } else { Ok(()) }
}

/// Counts what matches, and replays it by a job of the dispatcher.
async fn replay_by_job(replay: Replay, context: &mut Context) -> anyhow::Result<()> {
    let Replay { id: _, dead, slug, state, event_type, ref subscription, from, to, rate, dry_run, no_wait } = replay;
    if let (Some(from), Some(to)) = (from, to) {
        ensure!(from < to, "--from must be before --to");
    }
    let output = context.output;
    let Context { database, actor, .. } = context;
    let tenant = tenants::find(database, &slug.unwrap_or_default()).await?;
    let state = state.or_else(|| dead.then_some(DeliveryState::DeadLettered));
    let subscription = subscription.as_deref().map(subscriptions::parse_id).transpose()?;
    let query = DeliveryQuery { state, event_type, subscription, from, to, before: None };
    let counted = deliveries::count_replay(database, tenant, &query, u64::MAX).await?;
    let matched = counted.count;
    if dry_run || (matched == 0 && !no_wait) {
        return output.print_one(&ReplayReport { matched, replayed: 0 });
    }
    let rate = rate.unwrap_or(REPLAY_RATE);
    let created = deliveries::create_replay(database, actor, (tenant, Uuid::now_v7()), &query, (counted, rate)).await?;
    if no_wait {
        return output.print_one(&created);
    }
    output.note(&format!("Replay job {}: it continues if this command is interrupted.", created.id));
    let ended = deliveries::wait_for_replay(database, &created, &mut output.observer()).await?;
    let replayed = u64::try_from(ended.replayed).unwrap_or_default();
    output.print_one(&ReplayReport { matched, replayed })
}

fn outcome(attempt: &Attempt) -> Option<String> {
    attempt.status.map(|status| status.to_string()).or_else(|| attempt.error.clone())
}

show!(Delivery, delivery: "Id" delivery.id, "No." delivery.number, "Event" delivery.event_type,
    "Subscription" delivery.subscription_id, "State" delivery.state, "Created at" delivery.created_at, "Next attempt at" delivery.next_attempt_at,
    "Attempts" delivery.attempts.len(), "Last" delivery.attempts.last().and_then(outcome));

show!(Attempt, attempt: "Attempt at" attempt.at, "Status" attempt.status, "Error" attempt.error, "ms" attempt.duration_ms,
    "Response" attempt.response);

show!(SubscriptionBacklog, backlog: "Tenant" backlog.tenant, "Subscription" backlog.subscription_id, "URL" backlog.url,
    "Paused at" backlog.paused_at, "Pending" backlog.pending, "Retried" backlog.retried, "Dead" backlog.dead,
    "Oldest" backlog.oldest_at);

show!(ReplayReport, report: "Matched" report.matched, "Replayed" report.replayed);
