//! `connectctl retention`: what expires.

use crate::arguments::retention::Command;
use crate::context::Context;
use crate::output::Show;
use admin::retention::{self, ExpiredReport, RemovedReport};
use common::clock;
use common::settings::{RetentionPeriod, RetentionSettings};

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let settings: RetentionSettings = context.settings()?;
    // Dead letters are kept by default: then the broker is not needed.
    let broker = match settings.dead_letters {
        RetentionPeriod::OFF => None,
        _ => Some(context.broker().await?),
    };
    let now = clock::now();
    let Context { database, output, actor, .. } = context;
    match command {
        Command::Plan => {
            let mut observer = output.observer();
            let plan = retention::plan(database, broker.as_ref(), &settings, now, &mut observer).await?;
            output.print_list(&plan)?;
        }
        Command::Run => {
            let mut observer = output.observer();
            let removed =
                retention::run(database, actor, broker.as_ref(), &settings, now, &mut observer).await?;
            output.print_list(&removed)?;
        }
    }
    if let Some(broker) = broker {
        broker.close().await?;
    }
    Ok(())
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
