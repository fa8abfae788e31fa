//! Arguments of `connectctl pressure` and `connectctl usage`.

use super::TenantArgs;
use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  connectctl pressure")]
pub(crate) struct PressureArgs;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  connectctl usage --tenant acme")]
pub(crate) struct UsageArgs {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
}
