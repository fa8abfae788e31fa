//! Arguments of `connectctl company`.

use super::TenantArgs;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a company account; people whose email is on its domain join it from then on
    #[command(
        after_help = "Example:\n  connectctl company create --tenant acme --name 'Example Ltd' --domain example.com"
    )]
    Create(Create),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Name of the company
    #[arg(long)]
    pub(crate) name: String,
    /// Mail domain of the company; not that of a free mailbox provider
    #[arg(long)]
    pub(crate) domain: String,
}
