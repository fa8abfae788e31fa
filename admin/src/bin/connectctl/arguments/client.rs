//! Arguments of `connectctl client`.

use super::ClientArgs;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print everything that is stored of a client, as one JSON document
    #[command(
        after_help = "Example:\n  connectctl client export --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e > client.json"
    )]
    Export(ClientArgs),
    /// Erase a client from all tables and dead-letter queues; prints a receipt
    #[command(after_help = ERASE_HELP)]
    Erase(Erase),
}

const ERASE_HELP: &str = "\
A receipt and keyed hashes of email, phone and external id remain, so that events which occurred before the erasure are
refused with contact_erased. A later event or a records write with the same email makes a new client. For a client who was
erased before, dead letters that have appeared since are removed.

Example:
  connectctl client erase --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";

#[derive(Debug, Args)]
pub(crate) struct Erase {
    #[command(flatten)]
    pub(crate) of: ClientArgs,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}
