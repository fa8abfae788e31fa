//! `connectctl delivery`: webhook deliveries with their attempts, and their replay (D26).

use crate::arguments::delivery::{Command, List, Replay};
use crate::context::Context;
use crate::output::Show;
use admin::deliveries::{
    self, Attempt, Delivery, DeliveryFilter, DeliveryQuery, REPLAY_RATE, SubscriptionBacklog,
};
use admin::{subscriptions, tenants};
use anyhow::ensure;
use common::clock;
use common::model::DeliveryState;
use serde::Serialize;

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
            replay_one(context, &id).await?;
            show(context, &id).await
        }
        Command::Replay(replay) => replay_by_job(replay, context).await,
    }
}

async fn list(args: List, context: &Context) -> anyhow::Result<()> {
    let List { tenant, state, subscription, limit } = args;
    let filter = DeliveryFilter { state, subscription };
    let listed = deliveries::list(&context.database, &tenant.slug, &filter, limit).await?;
    context.output.print_newest(&listed, limit)
}

async fn show(context: &Context, id: &str) -> anyhow::Result<()> {
    let delivery = deliveries::find(&context.database, id).await?;
    print(context, &delivery)
}

/// Prints a delivery; for people, its attempts in a table of their own.
pub(crate) fn print(context: &Context, delivery: &Delivery) -> anyhow::Result<()> {
    context.output.print_one(delivery)?;
    if context.output.is_json() { Ok(()) } else { context.output.print_list(&delivery.attempts) }
}

async fn replay_one(context: &mut Context, id: &str) -> anyhow::Result<()> {
    deliveries::parse_id(id)?;
    let (broker, mut observer) = (context.broker().await?, context.output.observer());
    deliveries::replay_one(&mut context.database, &context.actor, &broker, id, &mut observer).await?;
    Ok(broker.close().await?)
}

/// Counts what matches, and replays it by a job of the dispatcher.
async fn replay_by_job(replay: Replay, context: &mut Context) -> anyhow::Result<()> {
    let Replay { id: _, dead, slug, state, event_type, ref subscription, from, to, rate, dry_run, no_wait } =
        replay;
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
    let created = deliveries::create_replay(database, actor, tenant, &query, (counted, rate)).await?;
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

impl Show for Delivery {
    const COLUMNS: &'static [&'static str] =
        &["Id", "Event", "Subscription", "State", "Created at", "Next attempt at", "Attempts", "Last"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.id.to_string()),
            self.event_type.clone(),
            Some(self.subscription_id.to_string()),
            Some(self.state.to_string()),
            Some(clock::to_text(self.created_at)),
            self.next_attempt_at.clone(),
            Some(self.attempts.len().to_string()),
            self.attempts.last().and_then(outcome),
        ]
    }
}

impl Show for Attempt {
    const COLUMNS: &'static [&'static str] = &["Attempt at", "Status", "Error", "ms", "Response"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(clock::to_text(self.at)),
            self.status.map(|status| status.to_string()),
            self.error.clone(),
            Some(self.duration_ms.to_string()),
            self.response.clone(),
        ]
    }
}

impl Show for SubscriptionBacklog {
    const COLUMNS: &'static [&'static str] =
        &["Tenant", "Subscription", "URL", "Paused at", "Pending", "Retried", "Dead", "Oldest"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.tenant.clone()),
            Some(self.subscription_id.to_string()),
            Some(self.url.clone()),
            self.paused_at.clone(),
            Some(self.pending.to_string()),
            Some(self.retried.to_string()),
            Some(self.dead.to_string()),
            Some(clock::to_text(self.oldest_at)),
        ]
    }
}

impl Show for ReplayReport {
    const COLUMNS: &'static [&'static str] = &["Matched", "Replayed"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.matched.to_string()), Some(self.replayed.to_string())]
    }
}
