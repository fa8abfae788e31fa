//! Arguments of `connectctl member`.

use super::TenantArgs;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a member, or restore a removed one; changes the name of an existing one
    #[command(
        after_help = "Example:\n  connectctl member add --tenant acme --email ada@acme.example --name 'Ada Byron'"
    )]
    Add(Add),
    /// Remove a member: no new lead is routed to them; they keep the leads that they own
    #[command(after_help = "Example:\n  connectctl member remove --tenant acme --email ada@acme.example")]
    Remove(Remove),
    /// List the members, removed ones included
    #[command(after_help = "Example:\n  connectctl member list --tenant acme")]
    List(TenantArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Email of the member, in any case
    #[arg(long)]
    pub(crate) email: String,
    /// Full name of the member
    #[arg(long)]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Email of the member, in any case
    #[arg(long)]
    pub(crate) email: String,
}
