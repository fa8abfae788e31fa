//! `connectctl client`: everything that is stored of a person, and its erasure (D32).

use crate::arguments::ClientArgs;
use crate::context::{Context, confirm};
use crate::output::show;
use admin::people::{self, Receipt};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print everything that is stored of a client, as one JSON document
    #[command(
        after_help = "Example:\n  connectctl client export --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e \\\n      > client.json"
    )]
    Export(ClientArgs),
    /// Erase a client from all tables and dead-letter queues; prints a receipt
    #[command(after_help = ERASE_HELP)]
    Erase {
        #[command(flatten)]
        of: ClientArgs,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

const ERASE_HELP: &str = "\
A receipt and keyed hashes of email, phone and external id remain, so that events which occurred before the erasure are \
refused with contact_erased. A later event or a records write with the same email makes a new client. For a client who was \
erased before, dead letters that have appeared since are removed.

Example:
  connectctl client erase --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    match command {
        Command::Export(of) => export(&of, context).await,
        Command::Erase { of, yes } => erase(&of, yes, context).await,
    }
}

async fn export(of: &ClientArgs, context: &mut Context) -> anyhow::Result<()> {
    let broker = context.broker().await?;
    let Context { database, actor, .. } = &mut *context;
    let exported = people::export(database, actor, &broker, &of.tenant.slug, &of.client).await?;
    broker.close().await?;
    context.output.print_document(&exported)
}

async fn erase(of: &ClientArgs, is_confirmed: bool, context: &mut Context) -> anyhow::Result<()> {
    let (slug, id) = (of.tenant.slug.as_str(), of.client.as_str());
    let (master_keys, broker) = (context.master_keys()?, context.settings()?);
    if !is_confirmed {
        confirm(&format!("Erase client {id} of {slug} for good?"), "nothing is erased").await?;
    }
    let Context { database, output, actor, .. } = context;
    let (named, mut observer) = ((slug, id), output.observer());
    output.print_one(&people::erase(database, actor, &master_keys, &broker, named, &mut observer).await?)
}

show!(Receipt, receipt: "Client" receipt.client_id, "Erased at" receipt.erased_at, "Removed" removed(receipt));

fn removed(receipt: &Receipt) -> Vec<String> {
    let removed = receipt.removed.iter().filter(|(_, number)| **number > 0);
    removed.map(|(what, number)| format!("{number} {what}")).collect()
}
