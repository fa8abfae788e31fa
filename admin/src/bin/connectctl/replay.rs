//! `connectctl replay`: replays of many deliveries, which the dispatcher executes.

use crate::arguments::TenantArgs;
use crate::context::Context;
use crate::output::show;
use admin::deliveries::{self, ReplayJob};
use clap::{Args, Subcommand};
use common::clock;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the replay jobs of a tenant, newest last
    #[command(after_help = "Example:\n  connectctl replay list --tenant acme")]
    List {
        #[command(flatten)]
        tenant: TenantArgs,
        /// Show only the newest N
        #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show a replay job with its progress
    #[command(after_help = "Example:\n  connectctl replay show 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Show(JobId),
    /// Stop a replay job: nothing more is replayed; what was replayed is sent
    #[command(after_help = "Example:\n  connectctl replay stop 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Stop(JobId),
}

#[derive(Debug, Args)]
pub(crate) struct JobId {
    /// Id of the job, as `delivery replay --no-wait` and `replay list` print it
    pub(crate) id: String,
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let output = context.output;
    let Context { database, actor, .. } = context;
    match command {
        Command::List { tenant, limit } => {
            output.print_newest(&deliveries::list_replays(database, &tenant.slug, limit).await?, limit)
        }
        Command::Show(JobId { id }) => output.print_one(&deliveries::find_replay(database, &id).await?),
        Command::Stop(JobId { id }) => output.print_one(&deliveries::stop_replay(database, actor, &id).await?),
    }
}

show!(ReplayJob, job: "Id" job.id, "State" job.state.as_str(), "Matched" job.matched, "Replayed" job.replayed,
    "Per second" job.per_second, "Deliveries" selected(job), "Created at" job.created_at, "Ended at" job.ended_at);

fn selected(job: &ReplayJob) -> Vec<String> {
    let (from, to) = job.occurred();
    let selected = [
        Some(job.states.join(" and ")),
        job.event_type.clone(),
        job.subscription_id.map(|id| format!("to {id}")),
        from.map(|at| format!("from {}", clock::to_text(at))),
        to.map(|at| format!("before {}", clock::to_text(at))),
    ];
    selected.into_iter().flatten().collect()
}
