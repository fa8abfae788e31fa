//! Arguments of `connectctl retention`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show how long everything is kept, and how much has expired and would be removed
    #[command(after_help = "Example:\n  connectctl retention plan")]
    Plan,
    /// Remove what has expired now, as the worker does by itself
    #[command(after_help = "Example:\n  CONNECT_RETENTION_DELIVERIES=14d connectctl retention run")]
    Run,
}
