//! `connectctl retention`: what expires.

use crate::context::Context;
use crate::output::Show;
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
    let now = clock::now();
    let Context { database, output, actor, .. } = context;
    match command {
        Command::Plan => output.print_list(&retention::plan(database, &settings, now).await?),
        Command::Run => {
            let mut observer = output.observer();
            let removed = retention::run(database, actor, &settings, now, &mut observer).await?;
            output.print_list(&removed)
        }
    }
}

impl Show for ExpiredReport {
    const COLUMNS: &'static [&'static str] = &["What", "Keep", "Due"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.what.to_owned()), Some(self.keep.clone()), Some(self.expired.to_string())]
    }
}

impl Show for RemovedReport {
    const COLUMNS: &'static [&'static str] = &["What", "Removed"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.what.to_owned()), Some(self.removed.to_string())]
    }
}
