//! `connectctl retention`: what expires.

use crate::context::Context;
use crate::output::show;
use admin::retention::{self, ExpiredReport, RemovedReport};
use clap::Subcommand;
use common::clock;
use common::settings::RetentionSettings;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show how long everything is kept, and how much has expired and would be removed
    #[command(after_help = "Example:\n  connectctl retention plan")]
    Plan,
    /// Remove what has expired now, as the worker does by itself
    #[command(after_help = "Example:\n  CONNECT_RETENTION_DELIVERIES=14d connectctl retention run")]
    Run,
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let settings: RetentionSettings = context.settings()?;
    let now = clock::database_now();
    let Context { database, output, actor, .. } = context;
    match command {
        Command::Plan => output.print_list(&retention::plan(database, &settings, now).await?),
        Command::Run => {
            output.print_list(&retention::run(database, actor, &settings, now, &mut output.observer()).await?)
        }
    }
}

show!(ExpiredReport, report: "What" report.what, "Keep" report.keep, "Due" report.expired);

show!(RemovedReport, report: "What" report.what, "Removed" report.removed);
