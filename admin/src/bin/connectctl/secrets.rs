//! `connectctl secrets`: the values that are sealed under the master key.

use crate::context::Context;
use crate::output::show;
use admin::secrets::{self, RotationReport, SealedCount};
use clap::Subcommand;

#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum Command {
    /// Seal all stored secrets under the current master key, after it was replaced; can be interrupted and run again
    #[command(after_help = ROTATE_HELP)]
    Rotate,
    /// Count the sealed values by master key
    #[command(after_help = "Example:\n  connectctl secrets list")]
    List,
}

const ROTATE_HELP: &str = "\
Needs the new key in CONNECT_MASTER_KEY and the old one in CONNECT_MASTER_KEY_PREVIOUS. Run it when all programs \
have both keys; they keep serving requests. Once it reports no remaining values, the old key can be removed from \
the programs, as soon as no queue holds a message that was signed with it.

Example:
  connectctl secrets rotate";

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let (output, master_keys) = (context.output, context.master_keys()?);
    match command {
        Command::Rotate => {
            let Context { database, actor, .. } = context;
            let report = secrets::rotate(database, actor, &master_keys, &mut output.observer()).await?;
            if report.remaining > 0 {
                output.note("Values were sealed under another key meanwhile: run the command again.");
            }
            output.print_one(&report)
        }
        Command::List => output.print_list(&secrets::count(&context.database, &master_keys).await?),
    }
}

show!(RotationReport, report: "Key" report.key_id, "Rewrapped" report.rewrapped, "Remaining" report.remaining,
    "Unreadable" report.unreadable);

show!(SealedCount, count: "Key" count.key_id, "Is" count.key.as_str(), "Values" count.values);
