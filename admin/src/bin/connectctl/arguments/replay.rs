//! Arguments of `connectctl replay`.

use super::TenantArgs;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the replay jobs of a tenant, newest last
    #[command(after_help = "Example:\n  connectctl replay list --tenant acme")]
    List(List),
    /// Show a replay job with its progress
    #[command(after_help = "Example:\n  connectctl replay show 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Show(JobId),
    /// Stop a replay job: nothing more is replayed; what was replayed is sent
    #[command(after_help = "Example:\n  connectctl replay stop 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Stop(JobId),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Show only the newest N
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct JobId {
    /// Id of the job, as `delivery replay --no-wait` and `replay list` print it
    pub(crate) id: String,
}
