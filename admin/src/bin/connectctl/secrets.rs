//! `connectctl secrets`: the values that are sealed under the master key.

use crate::arguments::secrets::Command;
use crate::context::Context;
use crate::output::Show;
use admin::sealed_values::{self, RotationReport, SealedCount};

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let (output, master_keys) = (context.output, context.master_keys()?);
    match command {
        Command::Rotate => {
            let mut observer = output.observer();
            let Context { database, actor, .. } = context;
            let report = sealed_values::rotate(database, actor, &master_keys, &mut observer).await?;
            if report.remaining > 0 {
                output.note("Values were sealed under another key meanwhile: run the command again.");
            }
            output.print_one(&report)
        }
        Command::List => output.print_list(&sealed_values::count(&context.database, &master_keys).await?),
    }
}

impl Show for RotationReport {
    const COLUMNS: &'static [&'static str] = &["Key", "Rewrapped", "Remaining", "Unreadable"];

    fn cells(&self) -> Vec<Option<String>> {
        let numbers =
            [self.rewrapped, self.remaining, self.unreadable].map(|number| Some(number.to_string()));
        std::iter::once(Some(self.key_id.clone())).chain(numbers).collect()
    }
}

impl Show for SealedCount {
    const COLUMNS: &'static [&'static str] = &["Key", "Is", "Values"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.key_id.clone()), Some(self.key.as_str().to_owned()), Some(self.values.to_string())]
    }
}
